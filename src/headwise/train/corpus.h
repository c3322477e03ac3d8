// Text files as two streams of tokens, to train on and to evaluate on: made
// once, kept beside the run, memory-mapped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/format/safetensors.h"
#include "headwise/progress.h"
#include "headwise/tokenizer/text_source.h"
#include "headwise/tokenizer/tokenizer.h"
#include "headwise/train/config.h"

namespace headwise {

// 32 hexadecimal digits over what a run reads: the bytes of its files, how they
// are split, and what the tokenizer makes of a text of every kind.
std::string HashData(const TrainConfig& config, const Tokenizer& tokenizer);

class Corpus {
 public:
  // Reads `cache` where it holds these files as this tokenizer cuts them, else
  // makes it. Throws Error naming the file: kNotFound, kInvalidArgument for
  // bytes that are not UTF-8 or no text at all.
  static Corpus Open(Context& context, const TrainConfig& config,
                     const Tokenizer& tokenizer,
                     const std::filesystem::path& cache,
                     const OnProgress& progress);

  std::span<const int32_t> train() const { return Stream("train"); }
  std::span<const int32_t> validation() const { return Stream("validation"); }
  const std::string& hash() const { return hash_; }

 private:
  // Whether the cache holds what a run of this text can use.
  bool Read(const std::filesystem::path& cache, int64_t least,
            int64_t vocabulary);
  std::span<const int32_t> Stream(const char* name) const;

  std::string hash_;
  Safetensors file_;
};

}  // namespace headwise
