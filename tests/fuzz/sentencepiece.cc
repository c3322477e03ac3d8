// Any bytes as a SentencePiece .model: either an Error, or a tokenizer that
// works.
#include "headwise/tokenizer/sentencepiece.h"

#include <cstdint>

#include "headwise/error.h"
#include "memory_file.h"
#include "use_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryFile file(data, size);
  try {
    UseTokenizer(*headwise::ReadSentencePiece(file.path()));
  } catch (const headwise::Error&) {
  }
  return 0;
}
