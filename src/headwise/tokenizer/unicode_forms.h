// The four Unicode normalisation forms, aligned.
#pragma once

#include "headwise/tokenizer/aligned_text.h"

namespace headwise {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

AlignedText ToUnicodeForm(const AlignedText& text, UnicodeForm form);

}  // namespace headwise
