// Vocabularies of both kinds. Door: include/headwise/vocabulary.h.
#include <string>

#include "headwise/base/fields.h"
#include "headwise/error.h"
#include "headwise/tokenizer/bpe_trainer.h"
#include "headwise/tokenizer/tokenizer_json.h"
#include "headwise/tokenizer/word_trainer.h"
#include "headwise/vocabulary.h"

namespace headwise {
namespace {

void RefuseSetting(const char* name, VocabularyKind needed,
                   VocabularyKind kind) {
  throw Error(
      ErrorCode::kInvalidArgument,
      {"vocab",
       "`kind` " + std::string(FieldWord(needed)) + " with `" + name + "`",
       FieldWord(kind), "leave out one of them"});
}

// Settings that the other kind has.
void RequireOneKindOf(const VocabularyJob& job) {
  const bool words = job.kind == VocabularyKind::kWords;
  if (words && job.bos != VocabularyJob().bos) {
    RefuseSetting("bos", VocabularyKind::kBpe, job.kind);
  }
  if (!words && job.cased) {
    RefuseSetting("cased", VocabularyKind::kWords, job.kind);
  }
  if (!words && !job.include.empty()) {
    RefuseSetting("include", VocabularyKind::kWords, job.kind);
  }
}

}  // namespace

LearnedVocabulary LearnVocabulary(const std::vector<std::string>& files,
                                  const VocabularyJob& job) {
  CheckFields(job, "vocab");
  RequireOneKindOf(job);
  TextSource texts(files);
  LearnedVocabulary learned;
  learned.json = job.kind == VocabularyKind::kWords
                     ? TrainWords(texts, job)
                     : TrainByteLevelBpe(texts, job);
  learned.entries = ParseTokenizerJson(learned.json, "vocab")->vocab_size();
  learned.bytes = texts.text_bytes();
  return learned;
}

}  // namespace headwise
