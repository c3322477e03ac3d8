// Any bytes as a tokenizer.json: either an Error, or a tokenizer that works.
#include <cstdint>

#include "headwise/error.h"
#include "headwise/tokenizer/tokenizer_json.h"
#include "use_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    UseTokenizer(*headwise::ParseTokenizerJson(
        {reinterpret_cast<const char*>(data), size}, "fuzz"));
  } catch (const headwise::Error&) {
  }
  return 0;
}
