// Door: chapters.h.
#include "headwise/study/support/chapters.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/study/support/translation.h"
#include "headwise/train/corpus.h"

namespace headwise {
namespace {

constexpr int64_t kCycle = 20;  // chapters, of which these are held out:
constexpr int64_t kDevelopment = 9, kTest = 19;

struct Chapter {
  std::string name;
  std::string lines;  // "source<tab>target"
};

[[noreturn]] void Refuse(const std::string& where, const std::string& found) {
  throw Error(ErrorCode::kInvalidArgument,
              {where, "BOOK:CHAPTER:VERSE, a tab, source, a tab, target", found,
               "chapters say which sentences belong together"});
}

// Adds the lines of one document.
void AddLines(std::string_view text, const std::string& name,
              std::vector<Chapter>& chapters) {
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    const std::string where = fmt::format("{}:{}", name, number);
    const size_t tab = line.find('\t');
    if (tab == line.npos) Refuse(where, "no tab");
    const std::string_view label = line.substr(0, tab);
    const size_t colon = label.rfind(':');
    if (colon == label.npos) Refuse(where, fmt::format("\"{}\"", label));
    const std::string_view chapter = label.substr(0, colon);
    if (chapters.empty() || chapters.back().name != chapter) {
      chapters.push_back({std::string(chapter), ""});
    }
    chapters.back().lines += line.substr(tab + 1);
    chapters.back().lines += '\n';
  }
}

std::vector<Chapter> MadeChapters() {
  constexpr int64_t kChapters = 2 * kCycle, kSentences = 12, kMostWords = 6;
  constexpr const char* kFrom[] = {"sun",   "moon", "tree", "bird",
                                   "river", "hill", "road", "rain"};
  constexpr const char* kTo[] = {"sol", "luna", "arbo", "birdo",
                                 "riv", "mont", "voj",  "pluv"};
  Rng rng(1);
  std::vector<Chapter> chapters;
  for (int64_t chapter = 0; chapter < kChapters; ++chapter) {
    chapters.push_back({fmt::format("made:{}", chapter + 1), ""});
    for (int64_t sentence = 0; sentence < kSentences; ++sentence) {
      std::string source, target;
      const auto words = 1 + static_cast<int64_t>(rng.Below(kMostWords));
      for (int64_t word = 0; word < words; ++word) {
        const uint64_t which = rng.Below(std::size(kFrom));
        source += std::string(word > 0 ? " " : "") + kFrom[which];
        target = kTo[which] + std::string(word > 0 ? " " : "") + target;
      }
      chapters.back().lines += source + '\t' + target + '\n';
    }
  }
  return chapters;
}

std::vector<Chapter> ChaptersOf(const std::vector<std::string>& paths) {
  if (paths.empty()) return MadeChapters();
  std::vector<Chapter> chapters;
  for (const std::filesystem::path& file : ListFiles(paths)) {
    for (const Document& document : ReadDocuments(file)) {
      AddLines(document.text, document.name, chapters);
    }
  }
  if (std::ssize(chapters) < kCycle) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"pairs to translate", fmt::format("at least {} chapters", kCycle),
         std::to_string(chapters.size()), ""});
  }
  return chapters;
}

}  // namespace

Chapters ReadChapters(const StudyRequest& request) {
  const std::vector<std::string> paths = PairsOf(request);
  const std::vector<Chapter> chapters = ChaptersOf(paths);
  const auto is_train = [](int64_t number) {
    return number % kCycle != kDevelopment && number % kCycle != kTest;
  };
  std::string trained;
  for (int64_t i = 0; i < std::ssize(chapters); ++i) {
    if (is_train(i)) trained += chapters[i].lines;
  }
  Chapters read;
  TextSource texts = TextSource::OfTexts({trained});
  read.tokenizer = TranslatorTokenizer(texts);
  for (int64_t i = 0; i < std::ssize(chapters); ++i) {
    std::vector<TokenPair>& to = is_train(i)                  ? read.train
                                 : i % kCycle == kDevelopment ? read.development
                                                              : read.test;
    for (TokenPair& pair : ReadPairs(chapters[i].lines, chapters[i].name,
                                     *read.tokenizer, kLongestSide)) {
      to.push_back(std::move(pair));
    }
  }
  read.given = !paths.empty();
  read.record.name = fmt::format(
      "{} pairs of sentences in {} chapters, {} for development and {} for the "
      "test",
      read.train.size(), chapters.size(), read.development.size(),
      read.test.size());
  read.record.tokenizer = "learned from the chapters trained on";
  if (!read.given) return read;
  TrainConfig data;
  data.data = paths;
  read.record.hash = HashData(data, *read.tokenizer);
  return read;
}

}  // namespace headwise
