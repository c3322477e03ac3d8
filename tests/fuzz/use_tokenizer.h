// What every tokenizer that could be loaded must stand: texts of every kind,
// spans that lie within them, and decoding again.
#pragma once

#include <cstdlib>
#include <string_view>

#include "headwise/error.h"
#include "headwise/tokenizer/tokenizer.h"

inline void UseTokenizer(const headwise::Tokenizer& tokenizer) {
  static constexpr std::string_view kTexts[] = {
      "",
      "The quick  brown\nfox doesn't 123 jump. <s>[MASK]",
      "cafe\u0301 \u212B \uFB01 \u65E5\u672C \U0001F600 \u0627\u0644 "
      "\u1112\u1161",
      " \t\u00A0\u3000 \u2581x",
  };
  for (const std::string_view text : kTexts) {
    // A text may be refused, and the next one not.
    try {
      const headwise::Encoding found = tokenizer.Encode(text);
      if (found.spans.size() != found.size()) abort();
      for (const headwise::TextSpan& span : found.spans) {
        if (span.begin > text.size() || span.end > text.size()) abort();
      }
      tokenizer.Decode(found.ids);
      tokenizer.EncodePair(text, "b");
    } catch (const headwise::Error&) {
    }
  }
}
