// Vocabularies without a tokenizer.json: what the older layouts leave unsaid
// is filled in by the rules of the family they belong to.
#pragma once

#include <filesystem>
#include <memory>

#include "headwise/tokenizer/tokenizer.h"

namespace headwise {

// GPT-2 and RoBERTa: vocab.json and its merges (merges.txt, vocab.bpe): one
// pair a line, perhaps after a "#version" line. RoBERTa, which surrounds texts
// by <s> and </s>, is told by these two tokens.
std::unique_ptr<Tokenizer> ReadVocabJson(const std::filesystem::path& vocab,
                                         const std::filesystem::path& merges);

// BERT: vocab.txt, one token a line. Texts are lowercased as `do_lower_case`
// of tokenizer_config.json says, else when no token has a capital.
std::unique_ptr<Tokenizer> ReadVocabTxt(const std::filesystem::path& path);

// llama2.c: tok512.bin and its like. 4 bytes longest token, then for each
// token a 4-byte float score, a 4-byte length and the bytes.
std::unique_ptr<Tokenizer> ReadLlama2c(const std::filesystem::path& path);

}  // namespace headwise
