// Translations of many sources at once are those of each alone.
#include "headwise/runtime/generate.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/runtime/test_models.h"

namespace headwise::generate_test {
namespace {

constexpr int32_t kWords = 31;
constexpr int64_t kMost = 15;

ModelConfig Marian(int32_t eos) {
  return ReadConfig({{"model_type", "marian"},
                     {"d_model", 16},
                     {"encoder_layers", 2},
                     {"decoder_layers", 2},
                     {"encoder_attention_heads", 2},
                     {"decoder_attention_heads", 2},
                     {"encoder_ffn_dim", 32},
                     {"decoder_ffn_dim", 32},
                     {"max_position_embeddings", 40},
                     {"vocab_size", kWords},
                     {"eos_token_id", eos},
                     {"pad_token_id", 2},
                     {"decoder_start_token_id", 2}},
                    "marian");
}

std::vector<std::vector<int32_t>> Sources() {
  Rng rng(7);
  std::vector<std::vector<int32_t>> sources(12);
  for (std::vector<int32_t>& source : sources) {
    source.resize(1 + rng.Below(20));
    for (int32_t& id : source) {
      id = 3 + static_cast<int32_t>(rng.Below(kWords - 3));
    }
  }
  return sources;
}

TEST(TranslateTogether, SaysWhatGenerateSaysOfEachSource) {
  Context context({.threads = 2, .implementations = ""});
  const std::vector<std::vector<int32_t>> sources = Sources();
  for (const int32_t eos : {0, 1, 3, 9, 17, 24}) {
    const auto model = runtime_test::FrozenModel(Marian(eos));
    const auto said = TranslateTogether(context, *model, sources, kMost);
    ASSERT_EQ(said.size(), sources.size());
    for (size_t i = 0; i < sources.size(); ++i) {
      GenerateJob job;
      job.max_tokens = kMost;
      EXPECT_EQ(said[i], Generate(context, *model, sources[i], job))
          << i << ", ended by " << eos;
    }
  }
}

TEST(TranslateTogether, RefusesAModelWithoutAnEncoder) {
  Context context({.threads = 1, .implementations = ""});
  const auto model =
      runtime_test::FrozenModel(ReadConfig({{"model_type", "gpt2"},
                                            {"n_embd", 16},
                                            {"n_layer", 1},
                                            {"n_head", 2},
                                            {"n_positions", 16},
                                            {"vocab_size", kWords}},
                                           "gpt2"));
  const std::vector<std::vector<int32_t>> sources = {{3, 4}};
  EXPECT_THROW(TranslateTogether(context, *model, sources, 4), Error);
}

}  // namespace
}  // namespace headwise::generate_test
