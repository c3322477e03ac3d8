// Reads coreference annotation in CoNLL: documents of words, and which
// stretches of them speak of the same thing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace headwise {

struct Mention {
  int32_t begin = 0;  // words [begin, end) of the document
  int32_t end = 0;
  int32_t head = 0;  // the word that stands for it: HeadWord below
  int32_t entity = 0;
};

struct CoreferenceDocument {
  std::string name;
  std::vector<std::string> words;
  std::vector<int32_t> sentence_starts;  // sentences + 1
  std::vector<Mention> mentions;         // by begin, longer first
};

// The word of words[begin, end) that stands for an English mention, by surface
// alone: the last one before the first comma, preposition or relative word
// ("the [master] of the house", "[Tom], a boy"), a final 's left out.
int32_t HeadWord(const std::vector<std::string>& words, int32_t begin,
                 int32_t end);

// Columns are separated by tabs: the fourth is the word, the last holds the
// mentions, "(3", "3)" or "(3)", several with |. Throws Error(kCorrupt) with
// the line for a mention that is closed but was not opened, or never closed.
std::vector<CoreferenceDocument> ParseCoreference(std::string_view conll,
                                                  const std::string& where);

// One file, or every file of a folder in the order of names. Throws
// Error(kNotFound), Error(kIo), and Error(kCorrupt) as above and where no file
// has any mention.
std::vector<CoreferenceDocument> ReadCoreference(
    const std::filesystem::path& path);

}  // namespace headwise
