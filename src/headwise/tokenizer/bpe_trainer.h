// Learning a byte-level BPE vocabulary from text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headwise/progress.h"
#include "headwise/tokenizer/text_source.h"

namespace headwise {

struct BpeTraining {
  int64_t size = 4096;        // entries, special tokens and 256 bytes included
  int64_t min_count = 2;      // pairs seen less often are not joined
  std::string bos = "<bos>";  // id 0, put before every text; "": none
  std::vector<std::string> special_tokens = {};  // further, from id 1 on

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("size", self.size,
          "entries of the vocabulary, special tokens and 256 bytes included");
    visit("min_count", self.min_count,
          "leave pairs apart that are seen less often");
    visit("bos", self.bos, "token with id 0 that begins every text");
    visit("special_tokens", self.special_tokens,
          "further special tokens, from id 1 on");
  }
};

// A tokenizer.json for the texts, cut into words by GPT-2's rule. The result
// depends on the texts and the options only: of pairs seen equally often the
// one with the lower ids is joined first. Throws Error(kInvalidArgument) for a
// size that leaves no room for the bytes or tokens given twice, and what
// TextSource throws. Of a text without spaces and line ends each 2 MiB are cut
// off, wherever a word ends.
std::string TrainByteLevelBpe(TextSource& texts, const BpeTraining& options,
                              const OnProgress& progress = {});

}  // namespace headwise
