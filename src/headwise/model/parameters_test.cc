// Where parameters in training lie, and how new ones begin.
#include "headwise/model/parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "headwise/model/family.h"
#include "headwise/ops/copy/copy.h"

namespace headwise::parameters_test {
namespace {

using testing::Each;

ModelConfig Config(const char* type) {
  return ReadConfig({{"model_type", type},
                     {"hidden_size", 12},
                     {"intermediate_size", 20},
                     {"num_hidden_layers", 2},
                     {"num_attention_heads", 2},
                     {"max_position_embeddings", 16},
                     {"vocab_size", 9}},
                    "config.json");
}

class Parameters : public testing::Test {
 protected:
  std::vector<float> Values(const ParameterStore& store, const char* name) {
    return ToVector<float>(context_, store.Find(name));
  }
  Context context_{{.threads = 2}};
};

TEST_F(Parameters, LieEndToEndInOneBufferAndAreAligned) {
  for (const char* type : {"llama", "qwen2", "qwen3", "bert", "roberta"}) {
    const auto store = ParameterStore::Fresh(Config(type), {});
    const auto model = BuildModel(Config(type), store);
    ASSERT_EQ(store->buffers().size(), 1) << type;
    const ParameterStore::Buffer& buffer = store->buffers()[0];
    EXPECT_EQ(buffer.used, buffer.value.size()) << type;
    for (const auto& [name, entry] : store->entries()) {
      for (const TensorView& view : {entry.value, entry.gradient}) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(view.data) % 64, 0) << name;
      }
      const auto offset = [&](const void* data, const Tensor& all) {
        return static_cast<const float*>(data) - all.As<float>();
      };
      EXPECT_EQ(offset(entry.value.data, buffer.value), entry.offset);
      EXPECT_EQ(offset(entry.gradient.data, buffer.gradient), entry.offset);
    }
  }
}

TEST_F(Parameters, OfAnotherTaskComeLaterAndMoveNothing) {
  const ModelConfig config = Config("llama");
  const auto store = ParameterStore::Fresh(config, {});
  const auto model = BuildModel(config, store);
  const void* before = store->Find("model.norm.weight").data;
  const Parameter score = store->Get("score.weight", {3, 12}, Start::Normal());
  const Parameter bias = store->Get("score.bias", {3}, Start::Zero());
  EXPECT_EQ(store->buffers().size(), 2);
  EXPECT_EQ(store->Find("model.norm.weight").data, before);
  Fill(context_, 5, score.gradient);
  Fill(context_, 5, store->Gradient("model.norm.weight"));
  store->ClearGradients(context_);
  EXPECT_THAT(ToVector<float>(context_, score.gradient), Each(0));
  EXPECT_THAT(ToVector<float>(context_, store->Gradient("model.norm.weight")),
              Each(0));
}

TEST_F(Parameters, BeginAsTheirFamilySays) {
  const auto store = ParameterStore::Fresh(Config("qwen2"), {});
  const auto model = BuildModel(Config("qwen2"), store);
  EXPECT_THAT(Values(*store, "model.norm.weight"), Each(1));
  EXPECT_THAT(Values(*store, "model.layers.1.self_attn.q_proj.bias"), Each(0));
  EXPECT_FALSE(store->Find("model.layers.1.self_attn.o_proj.bias"));
  EXPECT_FALSE(store->Find("model.layers.1.mlp.up_proj.bias"));
  // What is added to the residual stream is smaller, where training asks.
  const auto whole =
      ParameterStore::Fresh(Config("qwen2"), {.scale_residual = false});
  const auto other = BuildModel(Config("qwen2"), whole);
  for (const char* name : {"model.layers.1.self_attn.o_proj.weight",
                           "model.layers.1.mlp.down_proj.weight"}) {
    EXPECT_NEAR(Values(*whole, name)[0], 2 * Values(*store, name)[0], 1e-7);
  }
  EXPECT_EQ(Values(*whole, "model.layers.1.mlp.up_proj.weight"),
            Values(*store, "model.layers.1.mlp.up_proj.weight"));
}

}  // namespace
}  // namespace headwise::parameters_test
