// The coreference reader. Door: coreference_file.h.
#include "headwise/heads/profile/words/coreference_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "headwise/base/mapped_file.h"
#include "headwise/error.h"
#include "headwise/heads/profile/words/annotation_files.h"
#include "headwise/heads/profile/words/lines.h"
#include "headwise/tokenizer/unicode.h"

namespace headwise {
namespace {

constexpr size_t kWordColumn = 3;

class Parser {
 public:
  explicit Parser(std::string where) : where_(std::move(where)) {}

  std::vector<CoreferenceDocument> Parse(std::string_view conll) {
    for (LineReader lines(conll); const auto line = lines.Next();) {
      line_ = lines.number();
      if (line->starts_with("#begin document")) {
        EndDocument();
        document_.name = DocumentName(*line);
      } else if (line->starts_with("#")) {
        EndDocument();
      } else if (line->empty()) {
        EndSentence();
      } else {
        Row(SplitColumns(*line, '\t'));
      }
    }
    EndDocument();
    return std::move(documents_);
  }

 private:
  // "#begin document (NAME); part 0"
  static std::string DocumentName(std::string_view line) {
    const size_t open = line.find('('), close = line.find(')');
    if (open == line.npos || close == line.npos || close < open) return "";
    return std::string(line.substr(open + 1, close - open - 1));
  }

  void Row(const std::vector<std::string_view>& columns) {
    if (columns.size() < kWordColumn + 2 || columns[kWordColumn].empty()) {
      Fail("a word in the fourth of at least 5 columns separated by tabs",
           std::to_string(columns.size()));
    }
    if (FindInvalidUtf8(columns[kWordColumn]) != std::string_view::npos) {
      Fail("UTF-8", "other bytes in the fourth column");
    }
    document_.words.emplace_back(columns[kWordColumn]);
    const std::string_view marks = columns.back();
    if (marks.empty() || marks == "_" || marks == "-") return;
    for (const std::string_view mark : SplitColumns(marks, '|')) Mark(mark);
  }

  void Mark(std::string_view mark) {
    const bool opens = mark.starts_with('('), closes = mark.ends_with(')');
    std::string_view digits = mark;
    if (opens) digits.remove_prefix(1);
    if (closes && !digits.empty()) digits.remove_suffix(1);
    int32_t entity = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), entity);
    if ((!opens && !closes) || error != std::errc() ||
        end != digits.data() + digits.size()) {
      Fail("mentions as (3, 3) or (3)", fmt::format("\"{}\"", mark));
    }
    const auto word = static_cast<int32_t>(document_.words.size()) - 1;
    std::vector<int32_t>& open = open_[entity];
    if (opens) open.push_back(word);
    if (!closes) return;
    if (open.empty()) {
      Fail(fmt::format("mention {} to be opened before it is closed", entity),
           fmt::format("\"{}\"", mark));
    }
    document_.mentions.push_back({open.back(), word + 1, 0, entity});
    open.pop_back();
  }

  void EndSentence() {
    const auto count = static_cast<int32_t>(document_.words.size());
    std::vector<int32_t>& starts = document_.sentence_starts;
    if (starts.empty()) starts.push_back(0);
    if (starts.back() != count) starts.push_back(count);
  }

  void EndDocument() {
    for (const auto& [entity, open] : open_) {
      if (!open.empty()) {
        Fail(fmt::format("mention {} of {} to be closed", entity,
                         document_.name),
             "the end of the document");
      }
    }
    open_.clear();
    if (!document_.words.empty()) {
      EndSentence();
      for (Mention& mention : document_.mentions) {
        mention.head = HeadWord(document_.words, mention.begin, mention.end);
      }
      std::sort(document_.mentions.begin(), document_.mentions.end(),
                [](const Mention& a, const Mention& b) {
                  return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
                });
      documents_.push_back(std::move(document_));
    }
    document_ = {};
  }

  [[noreturn]] void Fail(const std::string& expected,
                         const std::string& found) const {
    throw Error(ErrorCode::kCorrupt, {fmt::format("{}, line {}", where_, line_),
                                      expected, found, ""});
  }

  std::string where_;
  size_t line_ = 0;
  CoreferenceDocument document_;
  std::map<int32_t, std::vector<int32_t>> open_;  // entity → begins
  std::vector<CoreferenceDocument> documents_;
};

}  // namespace

int32_t HeadWord(const std::vector<std::string>& words, int32_t begin,
                 int32_t end) {
  static constexpr std::array kStops = {
      ",",    ";",     "(",     "--",    "of",      "in",    "at",   "on",
      "to",   "from",  "with",  "for",   "by",      "upon",  "who",  "whom",
      "that", "which", "whose", "where", "whither", "under", "over", "near"};
  int32_t stop = begin + 1;
  while (stop < end &&
         std::find(kStops.begin(), kStops.end(), words[stop]) == kStops.end()) {
    ++stop;
  }
  const bool possessive = words[stop - 1] == "'s" || words[stop - 1] == "’s";
  return stop - begin > 1 && possessive ? stop - 2 : stop - 1;
}

std::vector<CoreferenceDocument> ParseCoreference(std::string_view conll,
                                                  const std::string& where) {
  std::vector<CoreferenceDocument> documents = Parser(where).Parse(conll);
  if (documents.empty()) {
    throw Error(ErrorCode::kCorrupt,
                {where, "at least one annotated document", "none",
                 "is it coreference in CoNLL, with #begin document?"});
  }
  return documents;
}

std::vector<CoreferenceDocument> ReadCoreference(
    const std::filesystem::path& path) {
  std::vector<CoreferenceDocument> documents;
  for (const std::filesystem::path& file : AnnotationFiles(path, "")) {
    for (CoreferenceDocument& document :
         ParseCoreference(MappedFile(file).text(), file.string())) {
      documents.push_back(std::move(document));
    }
  }
  if (std::all_of(documents.begin(), documents.end(), [](const auto& document) {
        return document.mentions.empty();
      })) {
    throw Error(ErrorCode::kCorrupt,
                {path.string(), "mentions such as (3) in the last column",
                 "none", "is it coreference in CoNLL, with tabs?"});
  }
  return documents;
}

}  // namespace headwise
