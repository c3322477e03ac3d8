// The CoNLL-U reader. Door: treebank.h.
#include "headwise/heads/profile/words/treebank.h"

#include <fmt/core.h>

#include <charconv>
#include <optional>

#include "headwise/base/mapped_file.h"
#include "headwise/error.h"
#include "headwise/heads/profile/words/annotation_files.h"
#include "headwise/heads/profile/words/lines.h"
#include "headwise/tokenizer/unicode.h"

namespace headwise {
namespace {

constexpr size_t kColumns = 10;
enum Column { kId, kForm, kGovernor = 6, kRelation = 7, kMisc = 9 };

std::optional<int32_t> Number(std::string_view text) {
  int32_t value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

bool SpaceAfter(std::string_view misc) {
  return misc.find("SpaceAfter=No") == misc.npos;
}

// A stretch of the text that one or more words stand for.
struct Surface {
  std::string form;
  int32_t first = 0;  // words [first, last]
  int32_t last = 0;
  bool space_after = true;
};

class TreebankParser {
 public:
  explicit TreebankParser(std::string where) : where_(std::move(where)) {}

  std::vector<TreebankSentence> Parse(std::string_view conllu) {
    for (LineReader lines(conllu); const auto line = lines.Next();) {
      line_ = lines.number();
      if (line->empty()) {
        EndSentence();
      } else if (line->front() == '#') {
        Comment(*line);
      } else {
        Row(SplitColumns(*line, '\t'));
      }
    }
    EndSentence();
    return std::move(sentences_);
  }

 private:
  void Comment(std::string_view line) {
    const auto value = [&](std::string_view key) -> std::optional<std::string> {
      if (!line.starts_with(key)) return {};
      return std::string(line.substr(key.size()));
    };
    if (auto id = value("# sent_id = ")) sentence_.id = *id;
    if (auto text = value("# text = ")) sentence_.text = *text;
  }

  void Row(const std::vector<std::string_view>& columns) {
    if (columns.size() != kColumns) {
      Fail(fmt::format("{} columns separated by tabs", kColumns),
           std::to_string(columns.size()));
    }
    const std::string_view id = columns[kId];
    if (id.find('.') != id.npos) return;  // an empty node: not in the text
    if (columns[kForm].empty()) Fail("a word in the second column", "nothing");
    if (const size_t dash = id.find('-'); dash != id.npos) {
      MultiWord(columns, dash);
    } else {
      Word(columns);
    }
  }

  void MultiWord(const std::vector<std::string_view>& columns, size_t dash) {
    const std::string_view id = columns[kId];
    const auto first = Number(id.substr(0, dash));
    const auto last = Number(id.substr(dash + 1));
    const auto next = static_cast<int32_t>(sentence_.words.size()) + 1;
    if (!first || !last || *first != next || *last < *first || Pending()) {
      Fail(fmt::format("a range that begins at word {}", next),
           std::string(id));
    }
    surfaces_.push_back({std::string(columns[kForm]), *first - 1, *last - 1,
                         SpaceAfter(columns[kMisc])});
  }

  void Word(const std::vector<std::string_view>& columns) {
    const auto next = static_cast<int32_t>(sentence_.words.size()) + 1;
    if (Number(columns[kId]) != next) {
      Fail(fmt::format("word {}", next), std::string(columns[kId]));
    }
    const auto governor = Number(columns[kGovernor]);
    if (!governor || *governor < 0 || *governor == next) {
      Fail(fmt::format("the number of the word above word {}, or 0", next),
           fmt::format("\"{}\"", columns[kGovernor]));
    }
    const bool inside = Pending();
    TreebankWord word;
    word.form = columns[kForm];
    word.governor = *governor - 1;
    word.relation = columns[kRelation];
    sentence_.words.push_back(std::move(word));
    if (!inside) {
      surfaces_.push_back({std::string(columns[kForm]), next - 1, next - 1,
                           SpaceAfter(columns[kMisc])});
    }
  }

  // Whether a multi-word token still waits for words.
  bool Pending() const {
    return !surfaces_.empty() &&
           surfaces_.back().last >=
               static_cast<int32_t>(sentence_.words.size());
  }

  void EndSentence() {
    if (sentence_.words.empty() && surfaces_.empty()) {
      sentence_ = {};
      return;
    }
    const auto count = static_cast<int32_t>(sentence_.words.size());
    if (Pending()) {
      Fail(fmt::format("words up to {}", surfaces_.back().last + 1),
           std::to_string(count));
    }
    for (const TreebankWord& word : sentence_.words) {
      if (word.governor < count) continue;
      Fail(fmt::format("a word above \"{}\" among the {} of the sentence",
                       word.form, count),
           std::to_string(word.governor + 1));
    }
    if (sentence_.text.empty()) SpellText();
    PlaceWords();
    sentences_.push_back(std::move(sentence_));
    sentence_ = {};
    surfaces_.clear();
  }

  void SpellText() {
    for (const Surface& surface : surfaces_) {
      sentence_.text += surface.form;
      if (surface.space_after) sentence_.text += ' ';
    }
  }

  void PlaceWords() {
    const std::string& text = sentence_.text;
    if (FindInvalidUtf8(text) != std::string_view::npos) {
      Fail("UTF-8", "other bytes in the text line");
    }
    size_t at = 0;
    const auto skip_spaces = [&] {
      while (at < text.size()) {
        const CodePoint c = CharacterAt(text, at);
        if (!IsWhitespace(c.value)) break;
        at += c.bytes;
      }
    };
    for (const Surface& surface : surfaces_) {
      skip_spaces();
      if (text.compare(at, surface.form.size(), surface.form) != 0) {
        Fail(fmt::format("word {} of the sentence, \"{}\", in its text line",
                         surface.first + 1, surface.form),
             fmt::format("\"{}\"", text.substr(at, 24)));
      }
      PlaceWithin(surface, static_cast<uint32_t>(at));
      at += surface.form.size();
    }
    skip_spaces();
    if (at != text.size()) {
      Fail("the text line to end with the last word",
           fmt::format("\"{}\"", text.substr(at, 24)));
    }
  }

  void PlaceWithin(const Surface& surface, uint32_t begin) {
    std::string spelled;
    for (int32_t w = surface.first; w <= surface.last; ++w) {
      spelled += sentence_.words[w].form;
    }
    uint32_t at = begin;
    for (int32_t w = surface.first; w <= surface.last; ++w) {
      TreebankWord& word = sentence_.words[w];
      if (spelled == surface.form) {
        word.bytes = {at, at + static_cast<uint32_t>(word.form.size())};
        at = word.bytes.end;
      } else {
        word.bytes = {begin,
                      begin + static_cast<uint32_t>(surface.form.size())};
      }
    }
  }

  [[noreturn]] void Fail(const std::string& expected,
                         const std::string& found) const {
    throw Error(ErrorCode::kCorrupt,
                {fmt::format("{}, sentence {}, line {}", where_,
                             sentences_.size() + 1, line_),
                 expected, found, ""});
  }

  std::string where_;
  size_t line_ = 0;
  TreebankSentence sentence_;
  std::vector<Surface> surfaces_;
  std::vector<TreebankSentence> sentences_;
};

}  // namespace

std::vector<TreebankSentence> ParseTreebank(std::string_view conllu,
                                            const std::string& where) {
  std::vector<TreebankSentence> sentences = TreebankParser(where).Parse(conllu);
  if (sentences.empty()) {
    throw Error(ErrorCode::kCorrupt,
                {where, "at least one sentence in CoNLL-U", "none",
                 "sentences are lines of ten columns between empty lines"});
  }
  return sentences;
}

std::vector<TreebankSentence> ReadTreebank(const std::filesystem::path& path) {
  std::vector<TreebankSentence> sentences;
  for (const std::filesystem::path& file : AnnotationFiles(path, ".conllu")) {
    for (TreebankSentence& sentence :
         ParseTreebank(MappedFile(file).text(), file.string())) {
      sentences.push_back(std::move(sentence));
    }
  }
  return sentences;
}

}  // namespace headwise
