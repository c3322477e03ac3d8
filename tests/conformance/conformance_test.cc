// Every family's tiny checkpoint against what Hugging Face transformers
// computes with it (tools/make_goldens.py), and planted mutations that these
// comparisons must catch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "goldens.h"
#include "headwise/base/json.h"
#include "headwise/format/safetensors.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/family.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/runtime/activations.h"

namespace headwise::conformance_test {
namespace {

// The two inputs, and what was expected of them.
struct Golden {
  explicit Golden(const std::string& of)
      : name(of),
        expected(Safetensors::Open(kGoldens / of / "expected.safetensors")) {
    for (const char* index : {"0", "1"}) {
      Add(expected.At(std::string(index) + ".input_ids"), ids, lengths);
      const ConstTensorView target =
          expected.Find(std::string(index) + ".decoder_input_ids");
      if (target) Add(target, decoder_ids, decoder_lengths);
    }
  }

  static void Add(const ConstTensorView& view, std::vector<int32_t>& to,
                  std::vector<int64_t>& sizes) {
    to.insert(to.end(), view.As<int32_t>(), view.As<int32_t>() + view.shape[0]);
    sizes.push_back(view.shape[0]);
  }

  std::string name;
  Safetensors expected;
  std::vector<int32_t> ids, decoder_ids;
  std::vector<int64_t> lengths, decoder_lengths;
};

// Our name of an expected tensor: "0.hidden.1" is "layer.0.output". The last
// hidden state of families with a final norm is taken after it.
std::string OurName(const Model& model, std::string name) {
  name = name.substr(2);  // the input's index
  if (name == "logits") return name;
  std::string prefix;
  for (const char* side : {"encoder.", "decoder."}) {
    if (name.starts_with(side)) {
      prefix = side;
      name = name.substr(prefix.size());
    }
  }
  const bool cross = name.starts_with("cross.");
  if (cross) {
    prefix = "decoder.";
    name = name.substr(6);
  }
  const int64_t layer = std::stoll(name.substr(name.rfind('.') + 1));
  if (name.starts_with("attention.")) {
    return prefix + "layer." + std::to_string(layer) +
           (cross ? ".cross.probs" : ".attention.probs");
  }
  const Stack& stack = prefix == "decoder." ? *model.decoder() : model.stack();
  if (layer == 0) return prefix + "embedding";
  if (layer == static_cast<int64_t>(stack.blocks.size())) {
    return prefix + "final";
  }
  return prefix + "layer." + std::to_string(layer - 1) + ".output";
}

// What |Δ| may be: of a probability, or of any other number relative to the
// larger of 1 and the reference; on a GPU to the largest of the tensor.
double ToleranceOf(const Place& place, const Golden& golden, bool probs) {
  if (place.type == DType::kBF16) {
    return HalfToleranceOf(golden.name).activations;
  }
  return probs ? 1e-5 : 2e-4;
}
double LargestOf(const ConstTensorView& expected) {
  double largest = 1;
  for (int64_t i = 0; i < expected.size(); ++i) {
    largest = std::max<double>(largest, std::abs(expected.As<float>()[i]));
  }
  return largest;
}

// The largest |Δ| / (tolerance · scale) over all expected tensors.
double WorstError(const Golden& golden, const Model& model,
                  const Place& place = {}) {
  Context context = place.MakeContext();
  ForwardInput input;
  input.ids = golden.ids;
  input.lengths = golden.lengths;
  input.decoder_ids = golden.decoder_ids;
  input.decoder_lengths = golden.decoder_lengths;
  std::map<std::string, Tensor> taken =
      RecordActivations(context, model, input, {"*"});
  double worst = 0;
  int compared = 0;
  for (const auto& [name, view] : golden.expected.tensors()) {
    if (view.type != DType::kF32) continue;
    const Tensor& ours = taken.at(OurName(model, name));
    const int64_t sequence = name[0] - '0';
    const bool probs = name.find("attention") != name.npos;
    const double tolerance = ToleranceOf(place, golden, probs) *
                             (place.device.is_cpu() ? 1 : LargestOf(view));
    // Expected [rows, width] or [heads, rows, keys]; ours is padded.
    const int64_t planes = probs ? view.shape[0] : 1;
    const int64_t rows = view.shape[view.rank - 2];
    const int64_t width = view.shape[view.rank - 1];
    const int64_t our_rows = ours.shape(ours.rank() - 2);
    const int64_t our_width = ours.shape(ours.rank() - 1);
    EXPECT_LE(rows, our_rows) << name;
    for (int64_t p = 0; p < planes; ++p) {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < width; ++c) {
          const double ref = view.As<float>()[(p * rows + r) * width + c];
          const double got =
              ours.As<float>()[((sequence * planes + p) * our_rows + r) *
                                   our_width +
                               c];
          const double scale =
              place.device.is_cpu() ? std::max(1.0, std::abs(ref)) : 1;
          const double error = std::abs(got - ref) / (tolerance * scale);
          worst = std::isnan(error) ? INFINITY : std::max(worst, error);
        }
      }
    }
    ++compared;
  }
  EXPECT_GE(compared, 8);
  return worst;
}

class Conformance : public GoldenTest {};

TEST_P(Conformance, EqualsTransformers) {
  const Golden golden(GetParam());
  for (const Place& place : Places()) {
    const Checkpoint checkpoint(kGoldens / GetParam(), {}, place.type);
    const double worst = WorstError(golden, checkpoint.model(), place);
    EXPECT_LE(worst, 1) << "times the tolerance, on " << place.name;
    RecordProperty("worst_over_tolerance", std::to_string(worst));
  }
}

// The cached, chunked path gives the same logits as the whole text at once.
void ExpectStepsEqual(const Golden& golden, const Model& model,
                      const Place& place) {
  Context context = place.MakeContext(1);
  Session session(context, model);
  const bool translates = model.config().encoder_decoder();
  const auto& fed = translates ? golden.decoder_ids : golden.ids;
  const int64_t count =
      translates ? golden.decoder_lengths[0] : golden.lengths[0];
  if (translates) {
    session.Encode({golden.ids.data(), static_cast<size_t>(golden.lengths[0])});
  }
  const ConstTensorView expected = golden.expected.At("0.logits");
  const double tolerance = ToleranceOf(place, golden, false);
  const double least = place.device.is_cpu() ? 1 : LargestOf(expected);
  int64_t at = 0;
  for (const int64_t rows : {int64_t{3}, int64_t{1}, count - 4}) {
    const std::vector<float> logits = ToVector<float>(
        context,
        session.Feed({fed.data() + at, static_cast<size_t>(rows)}).view());
    at += rows;
    const float* truth = expected.As<float>() + (at - 1) * expected.shape[1];
    for (int64_t c = 0; c < expected.shape[1]; ++c) {
      ASSERT_NEAR(logits[c], truth[c],
                  tolerance * std::max<double>(least, std::abs(truth[c])))
          << place.name;
    }
  }
}

// The golden's first input is one of a longer call, by whose length it turned.
bool TurnsByTheWholeCall(const Golden& golden, const ModelConfig& config) {
  const auto [least, most] = std::ranges::minmax(golden.lengths);
  return std::ranges::any_of(config.ropes, [&](const RopeConfig& rope) {
    return RopeLength(rope, least) != RopeLength(rope, most);
  });
}

TEST_P(Conformance, SteppingEqualsTheWholeText) {
  const Golden golden(GetParam());
  for (const Place& place : Places()) {
    const Checkpoint checkpoint(kGoldens / GetParam(), {}, place.type);
    const ModelConfig& config = checkpoint.config();
    if (!config.causal && !config.encoder_decoder()) return;
    if (TurnsByTheWholeCall(golden, config)) return;
    ExpectStepsEqual(golden, checkpoint.model(), place);
  }
}

TEST(ConformanceOf, AGpu) {
  if (Places().size() == 1) GTEST_SKIP() << "no GPU: the CPU alone was tested";
}

INSTANTIATE_TEST_SUITE_P(Families, Conformance,
                         testing::ValuesIn(GoldenNames()), TestName);

// Weights with the rows of one of them moved.
class MutatedWeights : public WeightSource {
 public:
  MutatedWeights(const std::filesystem::path& folder, std::string rotated)
      : file_(Safetensors::Open(folder)), rotated_(std::move(rotated)) {}

  std::string Describe() const override { return "mutated"; }
  std::vector<std::string> Names() const override { return {}; }
  ConstTensorView Find(const std::string& name) const override {
    const ConstTensorView view = file_.Find(name);
    if (!view || rotated_.empty() || name.find(rotated_) == name.npos) {
      return view;
    }
    // The two halves of the rows change places: the groups of kv heads.
    Tensor& copy = copies_[name];
    copy = Tensor(DType::kF32, {view.shape[0], view.shape[1]});
    const size_t half = copy.bytes() / 2;
    const auto* from = static_cast<const std::byte*>(view.data);
    std::memcpy(copy.As<std::byte>(), from + half, half);
    std::memcpy(copy.As<std::byte>() + half, from, half);
    return std::as_const(copy).view();
  }

 private:
  Safetensors file_;
  std::string rotated_;
  mutable std::map<std::string, Tensor> copies_;
};

struct Mutation {
  const char* name;
  const char* family;
  std::function<void(ModelConfig&)> config;
  const char* rotated = "";
};

const Mutation kMutations[] = {
    {"rope_base", "llama", [](ModelConfig& c) { c.ropes[0].base *= 1.1; }},
    {"dynamic_base", "llama-dynamic",
     [](ModelConfig& c) { c.ropes[0].scaling = RopeScaling::kNone; }},
    {"longrope_factors", "mistral-longrope",
     [](ModelConfig& c) {
       c.ropes[0].long_factors = c.ropes[0].short_factors;
     }},
    {"longrope_scale", "qwen3-longrope-short",
     [](ModelConfig& c) { c.ropes[0].scale = 1; }},
    {"share", "qwen2-proportional",
     [](ModelConfig& c) { c.ropes[0].turned = 0; }},
    {"mask_off_by_one", "mistral",
     [](ModelConfig& c) { c.layers[1].window += 1; }},
    {"window_to_one_side_more", "modernbert",
     [](ModelConfig& c) { c.layers[1].window += 2; }},
    {"base_of_other_layers", "modernbert",
     [](ModelConfig& c) { c.layers[1].rope = 0; }},
    {"groups_dealt_otherwise", "albert-groups",
     [](ModelConfig& c) {
       c.layers[2].weights_of = 2;
       c.layers[3].weights_of = 3;
       c.layers[4].weights_of = 2;
       c.layers[5].weights_of = 3;
     }},
    {"query_key_norm_left_out", "qwen3",
     [](ModelConfig& c) { c.model_type = "qwen2"; }},
    {"kv_groups_swapped", "llama", [](ModelConfig&) {}, "k_proj"},
    {"norm_epsilon", "bert", [](ModelConfig& c) { c.norm_epsilon = 1e-5f; }},
    {"rope_pairs", "gptj",
     [](ModelConfig& c) { c.ropes[0].pairs = RopePairs::kHalves; }},
    {"scores_scaled", "gpt_neo", [](ModelConfig& c) { c.layers[0].scale = 0; }},
    {"local_window", "gpt_neo", [](ModelConfig& c) { c.layers[1].window = 0; }},
    {"norm_place", "opt-projected",
     [](ModelConfig& c) { c.norm_place = NormPlace::kPre; }},
    {"slopes_of_heads", "bloom",
     [](ModelConfig& c) {
       c.layers[1].bias_columns = {0, 2, 1};
     }},
    {"rotary_share", "phi", [](ModelConfig& c) { c.ropes[0].turned = 0; }},
    {"head_norms_left_out", "phi-normed",
     [](ModelConfig& c) { c.query_key_norm = false; }},
    {"position_offset", "roberta",
     [](ModelConfig& c) {
       c.position_offset -= 1;
       c.context += 1;
     }},
};

class Mutations : public testing::TestWithParam<Mutation> {};

TEST_P(Mutations, AreCaught) {
  const Mutation& mutation = GetParam();
  const std::filesystem::path folder = kGoldens / mutation.family;
  ModelConfig config = OpenConfig(folder);
  mutation.config(config);
  const auto model = BuildModel(
      config, std::make_shared<MutatedWeights>(folder, mutation.rotated));
  EXPECT_GT(WorstError(Golden(mutation.family), *model), 2);
}

INSTANTIATE_TEST_SUITE_P(Planted, Mutations, testing::ValuesIn(kMutations),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace headwise::conformance_test
