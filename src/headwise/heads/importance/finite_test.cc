// A run whose numbers are not finite ends with the name of what is at fault.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "headwise/error.h"
#include "headwise/heads/importance/objective.h"
#include "headwise/heads/importance/ranking.h"
#include "headwise/heads/importance/test_models.h"
#include "headwise/heads/importance/variants.h"
#include "headwise/nn/head_weights.h"

namespace headwise::finite_test {
namespace {

using testing::HasSubstr;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Every token of the vocabulary, so that every row of every table is read.
std::vector<TextExample> AllTokens() {
  std::vector<TextExample> examples(4);
  for (int32_t id = 0; id < 64; ++id) examples[id / 16].ids.push_back(id);
  for (TextExample& example : examples) example.target = example.ids;
  return examples;
}

// "" where the run ends well.
std::string ErrorOfRun(const Model& model) {
  Context context({1, ""});
  RankOptions options;
  options.job.by = {Criterion::kAblationMean};
  options.objective.mask_token = 3;
  options.replicates = 20;
  try {
    RankHeads(context, model, AllTokens(), options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt) << error.what();
    return error.what();
  }
  return "";
}

// Parts of a checkpoint that a run does not read.
bool Unread(const std::string& name, const Tensor& tensor) {
  return name.find("pooler") != name.npos ||
         name.find("token_type") != name.npos ||  // only its first row
         name.find("position") != name.npos ||    // not to its end
         name.find("wpe") != name.npos ||
         name.find("final_logits_bias") != name.npos || tensor.rank() == 0;
}

TEST(Finite, EveryWeightThatIsNotANumberIsNamed) {
  for (const char* family : {"gpt2", "gpt_neox", "llama", "qwen3", "bert",
                             "roberta", "distilbert", "marian"}) {
    std::vector<std::string> names;
    GoldenModel(family, [&](WeightMap& weights) {
      for (const auto& [name, tensor] : weights) {
        if (!Unread(name, tensor)) names.push_back(name);
      }
    });
    ASSERT_GT(names.size(), 10u);
    for (const std::string& name : names) {
      for (const float bad : {kNaN, kInfinity}) {
        const auto model = GoldenModel(family, [&](WeightMap& weights) {
          Tensor& tensor = weights[name];
          tensor.As<float>()[tensor.size() / 2] = bad;
        });
        EXPECT_THAT(ErrorOfRun(*model), HasSubstr(name))
            << family << " " << name << " " << bad;
      }
    }
  }
}

TEST(Finite, AWeightBeyondReasonIsNamed) {
  const float huge = std::numeric_limits<float>::max();
  for (const char* name :
       {"model.embed_tokens.weight", "model.layers.0.mlp.down_proj.weight",
        "model.layers.1.self_attn.o_proj.weight",
        "model.layers.1.input_layernorm.weight"}) {
    const auto model = GoldenModel("llama", [&](WeightMap& weights) {
      std::fill_n(weights[name].As<float>(), weights[name].size(), huge);
    });
    EXPECT_THAT(ErrorOfRun(*model), HasSubstr(name));
  }
}

TEST(Finite, TheLayerIsNamedWhereNoWeightIsAtFault) {
  // Each weight is within reason; their product is not.
  const auto model = GoldenModel("llama", [](WeightMap& weights) {
    for (const char* part : {"gate", "up", "down"}) {
      Tensor& w =
          weights["model.layers.1.mlp." + std::string(part) + "_proj.weight"];
      std::fill_n(w.As<float>(), w.size(), 1e8f);
    }
  });
  EXPECT_THAT(ErrorOfRun(*model), HasSubstr("layer.1.mlp.output"));
}

TEST(Finite, WeightsThatAreReadByThemselvesAreChecked) {
  const auto model = GoldenModel("llama", [](WeightMap& weights) {
    weights["model.layers.1.self_attn.k_proj.weight"].As<float>()[0] = kNaN;
  });
  Context context({1, ""});
  try {
    WeightsOfHead(context, *AttentionLayers(*model, AttentionKind::kSelf)[1],
                  0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("layers.1.self_attn.k_proj"));
  }
}

}  // namespace
}  // namespace headwise::finite_test
