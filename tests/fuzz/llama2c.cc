// Any bytes as a tok*.bin of llama2.c: either an Error, or a tokenizer that
// works.
#include <cstdint>

#include "headwise/error.h"
#include "headwise/tokenizer/vocabulary_files.h"
#include "memory_file.h"
#include "use_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryFile file(data, size);
  try {
    UseTokenizer(*headwise::ReadLlama2c(file.path()));
  } catch (const headwise::Error&) {
  }
  return 0;
}
