// Any bytes as a tokenizer.json: either an Error, or a tokenizer that encodes
// texts of every kind into spans that lie within them, and decodes again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "headwise/error.h"
#include "headwise/tokenizer/tokenizer_json.h"

namespace {

constexpr std::string_view kTexts[] = {
    "",
    "The quick  brown\nfox doesn't 123 jump. <s>[MASK]",
    "cafe\u0301 \u212B \uFB01 \u65E5\u672C \U0001F600 \u0627\u0644 "
    "\u1112\u1161",
    " \t\u00A0\u3000 \u2581x",
};

void Use(const headwise::Tokenizer& tokenizer, std::string_view text) {
  const headwise::Encoding found = tokenizer.Encode(text);
  if (found.spans.size() != found.size()) abort();
  for (const headwise::TextSpan& span : found.spans) {
    if (span.begin > text.size() || span.end > text.size()) abort();
  }
  tokenizer.Decode(found.ids);
  tokenizer.EncodePair(text, "b");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto tokenizer = headwise::ParseTokenizerJson(
        {reinterpret_cast<const char*>(data), size}, "fuzz");
    for (std::string_view text : kTexts) {
      // A text may be refused, and the next one not.
      try {
        Use(*tokenizer, text);
      } catch (const headwise::Error&) {
      }
    }
  } catch (const headwise::Error&) {
  }
  return 0;
}
