// SentencePiece models, run by the SentencePiece library.
#pragma once

#include <filesystem>
#include <memory>

#include "headwise/tokenizer/tokenizer.h"

namespace headwise {

// A *.model or *.spm file. Texts are surrounded as add_bos_token and
// add_eos_token of the tokenizer_config.json beside it say; where it is silent,
// by the beginning token or, in models that have none (T5), the end token.
std::unique_ptr<Tokenizer> ReadSentencePiece(const std::filesystem::path& path);

// Marian: source.spm cuts, target.spm joins, vocab.json numbers the pieces,
// and each text ends in </s>.
std::unique_ptr<Tokenizer> ReadMarian(const std::filesystem::path& folder);

}  // namespace headwise
