// The shipped models and text, for the tests of this folder.
#pragma once

#include <cstdint>
#include <string>

#include "headwise/model.h"
#include "headwise/text_input.h"

namespace headwise {

Transformer Novels(const OpenOptions& options = {});

// Of 2 × 8 heads, where the model's size is all the same.
Transformer Planted();

inline const std::string kSentence = "The captain looked at the sea.";

// The first tokens of the shipped text.
TextInput ShortText(int64_t tokens = 256);

}  // namespace headwise
