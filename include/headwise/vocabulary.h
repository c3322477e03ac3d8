// Learning a tokenizer's vocabulary from text.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "headwise/export.h"
#include "headwise/fields.h"
#include "headwise/progress.h"

namespace headwise {

enum class VocabularyKind : uint8_t {
  kBpe,    ///< pieces of bytes, which spell every text
  kWords,  ///< the most frequent whole words; others are unknown
};
constexpr std::array<const char*, 2> FieldWords(VocabularyKind) {
  return {"bpe", "words"};
}

struct VocabularyJob {
  VocabularyKind kind = VocabularyKind::kBpe;
  int64_t size = 4096;        ///< entries, special tokens and bytes included
  int64_t min_count = 2;      ///< rarer pairs or words are left out
  std::string bos = "<bos>";  ///< bpe: id 0, before every text; "": none
  /// Further ones: from id 1 on, or after the five of words.
  std::vector<std::string> special_tokens = {};
  bool cased = false;                     ///< words: Apple and apple are two
  std::vector<std::string> include = {};  ///< words: these, however rare
  OnProgress on_progress = {};

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("kind", self.kind,
          "bpe: pieces of bytes, which spell everything; words: the most "
          "frequent whole words, others unknown, with [CLS], [SEP] and [MASK], "
          "for encoders");
    visit("size", self.size,
          "entries of the vocabulary, special tokens and 256 bytes included");
    visit("min_count", self.min_count,
          "leave out pairs of bytes, or words, that are seen less often",
          AtLeast(1));
    visit("bos", self.bos, "bpe: token with id 0 that begins every text");
    visit("special_tokens", self.special_tokens,
          "further special tokens, from id 1 on, or after the five of words");
    visit("cased", self.cased,
          "words: tell Apple from apple; else all is lower case");
    visit("include", self.include, "words: these too, however rare: mat,phone");
  }
};

struct LearnedVocabulary {
  std::string json = {};  ///< a tokenizer.json, which Tokenizer::Load reads
  int64_t entries = 0;
  uint64_t bytes = 0;  ///< bytes of the text that it was learned from
};

/// Learns a vocabulary from files as TextInput::files (text_input.h) names
/// them. Byte-level BPE cuts text into words by GPT-2's rule and joins the
/// pairs that are seen most often; of a text without spaces and line ends each
/// 2 MiB are cut off, wherever a word ends. Words are cut at spaces and around
/// punctuation, as BERT's are; ids 0 … 4 are [PAD], [UNK], [CLS], [SEP] and
/// [MASK], and a text is framed by [CLS] and [SEP]. The result depends on
/// texts and job only. Throws Error: kInvalidArgument for a size without room
/// for the bytes, a word or those included, for tokens given twice, and for
/// settings of the other kind; and as ReadTexts does.
HEADWISE_API LearnedVocabulary LearnVocabulary(
    const std::vector<std::string>& files, const VocabularyJob& job = {});

}  // namespace headwise
