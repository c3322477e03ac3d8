// HEADWISE_SOURCE is a definition of the tests' program alone.
#include "headwise/api/test_model.h"

namespace headwise {

Transformer Novels(const OpenOptions& options) {
  return Transformer(HEADWISE_SOURCE "/assets/novels", options);
}

Transformer Planted() { return Transformer(HEADWISE_SOURCE "/assets/planted"); }

TextInput ShortText(int64_t tokens) {
  TextInput text = TextInput::Files({HEADWISE_SOURCE "/assets/text"});
  text.tokens = tokens;
  return text;
}

}  // namespace headwise
