// A layer that has lost all its heads gives what it gives with all of them
// closed: nothing, or the output projection's bias.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "headwise/format/safetensors.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/family.h"
#include "headwise/model/head_ref.h"
#include "headwise/model/parameters.h"
#include "headwise/runtime/gates.h"
#include "headwise/runtime/session.h"

namespace headwise::pruned_layers_test {
namespace {

const std::filesystem::path kGoldens = HEADWISE_GOLDENS;
constexpr int64_t kPruned = 1;  // the layer

// A checkpoint's weights without the heads of one layer.
class WithoutHeads : public WeightSource {
 public:
  WithoutHeads(const std::filesystem::path& folder, std::string layer)
      : file_(Safetensors::Open(folder)), layer_(std::move(layer)) {}

  std::string Describe() const override { return "pruned"; }
  std::vector<std::string> Names() const override { return {}; }
  ConstTensorView Find(const std::string& name) const override {
    ConstTensorView view = file_.Find(name);
    if (!view || name.find(layer_) == name.npos) return view;
    for (const char* part : {"q_proj.", "k_proj.", "v_proj.", "self.query.",
                             "self.key.", "self.value."}) {
      if (name.find(part) != name.npos) view.shape[0] = 0;
    }
    for (const char* part :
         {"o_proj.weight", "attention.output.dense.weight"}) {
      if (name.find(part) != name.npos) view.shape[1] = 0;
    }
    return view;
  }

 private:
  Safetensors file_;
  std::string layer_;
};

void ExpectNear(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.size(), b.size());
  for (int64_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a.As<float>()[i], b.As<float>()[i], 2e-5) << i;
  }
}

struct Pair {
  std::unique_ptr<Model> whole, pruned;
  std::unique_ptr<ClosedHeads> closed;
};

Pair Open(const std::string& family, const std::string& layer) {
  Pair pair;
  pair.whole = OpenModel(kGoldens / family);
  std::vector<HeadRef> heads = AllHeads(*pair.whole);
  std::erase_if(heads, [](const HeadRef& h) { return h.layer != kPruned; });
  pair.closed = std::make_unique<ClosedHeads>(*pair.whole, heads);
  ModelConfig config = OpenConfig(kGoldens / family);
  config.layers[kPruned].heads = config.layers[kPruned].kv_heads = 0;
  pair.pruned = BuildModel(
      config, std::make_shared<WithoutHeads>(kGoldens / family, layer));
  return pair;
}

TEST(PrunedLayers, EncodersKeepTheBias) {
  const Pair pair = Open("bert", "layer.1.");
  Context context({2, ""});
  for (const int64_t length : {int64_t{3}, int64_t{14}}) {
    const std::vector<int32_t> ids(length, 5);
    const int64_t lengths[] = {length};
    ForwardInput input{.ids = ids, .lengths = lengths};
    const Tensor pruned = Forward(context, *pair.pruned, input);
    input.hooks = pair.closed.get();
    ExpectNear(pruned, Forward(context, *pair.whole, input));
  }
}

TEST(PrunedLayers, DecodersGoOnStepByStep) {
  const Pair pair = Open("llama", "layers.1.");
  Context context({2, ""});
  Session pruned(context, *pair.pruned);
  Session whole(context, *pair.whole, {.hooks = pair.closed.get()});
  const std::vector<int32_t> prompt = {1, 5, 7, 2, 9, 11, 3, 4, 6, 8};
  ExpectNear(pruned.Feed(prompt), whole.Feed(prompt));
  const std::vector<int32_t> next = {10};
  ExpectNear(pruned.Feed(next), whole.Feed(next));
}

// GPT-2's weights with its matrices stored [out, in], as gpt-nano's are.
class OutIn : public WeightSource {
 public:
  explicit OutIn(const ParameterStore& store) {
    for (const std::string& name : store.Names()) {
      const ConstTensorView from = store.Find(name);
      const bool turned = from.rank == 2 && name.find(".c_") != name.npos;
      const int64_t rows = from.rank == 2 ? from.shape[0] : 1;
      const int64_t columns = from.shape[from.rank - 1];
      Tensor& to = tensors_[name];
      to = from.rank == 1 ? Tensor(DType::kF32, {columns})
           : turned       ? Tensor(DType::kF32, {columns, rows})
                          : Tensor(DType::kF32, {rows, columns});
      for (int64_t i = 0; i < rows * columns; ++i) {
        const int64_t at = turned ? i % columns * rows + i / columns : i;
        to.As<float>()[at] = from.As<float>()[i];
      }
    }
  }
  std::string Describe() const override { return "turned"; }
  std::vector<std::string> Names() const override { return {}; }
  ConstTensorView Find(const std::string& name) const override {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? ConstTensorView{} : found->second.view();
  }

 private:
  std::map<std::string, Tensor> tensors_;
};

// A first layer of a third of the heads has a square fused matrix.
TEST(PrunedLayers, BothLayoutsOfGpt2AreToldApart) {
  const ModelConfig config = ReadConfig({{"model_type", "gpt2"},
                                         {"n_embd", 24},
                                         {"n_head", 3},
                                         {"n_layer", 2},
                                         {"vocab_size", 12},
                                         {"n_positions", 8},
                                         {"heads_per_layer", {1, 3}}},
                                        "config.json");
  const auto store = ParameterStore::Fresh(config, {.deviation = 0.5f});
  const auto plain = BuildModel(config, store);
  const auto turned = BuildModel(config, std::make_shared<OutIn>(*store));
  Context context({1, ""});
  const std::vector<int32_t> ids = {1, 5, 7, 2, 9};
  const int64_t lengths[] = {5};
  const ForwardInput input{.ids = ids, .lengths = lengths};
  ExpectNear(Forward(context, *turned, input), Forward(context, *plain, input));
}

}  // namespace
}  // namespace headwise::pruned_layers_test
