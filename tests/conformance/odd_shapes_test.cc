// Shapes and scales that few checkpoints have, against the formulas written
// down once more, as plainly as they can be: double precision, one number at a
// time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/base/rng.h"
#include "headwise/model/family.h"
#include "headwise/model/parameters.h"
#include "headwise/runtime/session.h"

namespace headwise::odd_shapes_test {
namespace {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

// A model with random weights, biases and norms.
struct RandomModel {
  explicit RandomModel(const char* json)
      : config(ReadConfig(ParseJson(json, "config.json"), "config.json")),
        store(ParameterStore::Fresh(config, {})),
        model(BuildModel(config, store)) {
    Rng rng(11);
    for (auto& [name, entry] : store->entries()) {
      const bool norm = name.ends_with(".weight") && entry.value.rank == 1;
      for (int64_t i = 0; i < entry.value.size(); ++i) {
        entry.value.As<float>()[i] =
            static_cast<float>((norm ? 1 : 0) + 0.3 * rng.Normal());
      }
    }
  }

  ModelConfig config;
  std::shared_ptr<ParameterStore> store;
  std::unique_ptr<Model> model;
};

class Naive {
 public:
  explicit Naive(const RandomModel& model) : store_(*model.store) {}

  double At(const std::string& name, int64_t i, int64_t j = 0) const {
    const ConstTensorView view = store_.Find(name);
    EXPECT_TRUE(view) << name;
    const int64_t row = view.rank == 2 ? view.shape[1] : 1;
    return view.As<float>()[i * row + j];
  }
  int64_t Size(const std::string& name) const {
    return store_.Find(name).shape[0];
  }

  Row Embed(const std::string& table, int32_t id, double scale) const {
    Row row(store_.Find(table).shape[1]);
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = scale * At(table, id, static_cast<int64_t>(i));
    }
    return row;
  }

  // in_out: stored [in, out], as GPT-2 does; else [out, in].
  Rows Dense(const Rows& x, const std::string& name, bool in_out) const {
    const int64_t out = Size(name + ".bias");
    Rows y;
    for (const Row& row : x) {
      Row& to = y.emplace_back(out);
      for (int64_t o = 0; o < out; ++o) {
        to[o] = At(name + ".bias", o);
        for (size_t i = 0; i < row.size(); ++i) {
          const auto in = static_cast<int64_t>(i);
          to[o] += row[i] * (in_out ? At(name + ".weight", in, o)
                                    : At(name + ".weight", o, in));
        }
      }
    }
    return y;
  }

  Rows Norm(Rows x, const std::string& name) const {
    for (Row& row : x) {
      double mean = 0, square = 0;
      for (const double v : row) mean += v / static_cast<double>(row.size());
      for (const double v : row) square += (v - mean) * (v - mean);
      const double deviation =
          std::sqrt(square / static_cast<double>(row.size()) + 1e-5);
      for (size_t i = 0; i < row.size(); ++i) {
        const auto at = static_cast<int64_t>(i);
        row[i] = (row[i] - mean) / deviation * At(name + ".weight", at) +
                 At(name + ".bias", at);
      }
    }
    return x;
  }

  Rows Logits(const Rows& x, const std::string& table) const {
    Rows logits;
    for (const Row& row : x) {
      Row& to = logits.emplace_back(Size(table));
      for (size_t c = 0; c < to.size(); ++c) {
        for (size_t i = 0; i < row.size(); ++i) {
          to[c] += row[i] *
                   At(table, static_cast<int64_t>(c), static_cast<int64_t>(i));
        }
      }
    }
    return logits;
  }

 private:
  const ParameterStore& store_;
};

struct Heads {
  int64_t count;
  double scale;
  bool causal;
};

// q [M, d], k and v [N, d]: the heads side by side.
Rows Attend(const Rows& q, const Rows& k, const Rows& v, const Heads& heads) {
  const size_t width = q[0].size() / heads.count;
  Rows out(q.size(), Row(q[0].size()));
  for (size_t i = 0; i < q.size(); ++i) {
    const size_t seen = heads.causal ? i + 1 : k.size();
    for (int64_t h = 0; h < heads.count; ++h) {
      const size_t first = h * width;
      Row weights(seen);
      double sum = 0;
      for (size_t j = 0; j < seen; ++j) {
        for (size_t c = first; c < first + width; ++c) {
          weights[j] += heads.scale * q[i][c] * k[j][c];
        }
        weights[j] = std::exp(weights[j]);
        sum += weights[j];
      }
      for (size_t j = 0; j < seen; ++j) {
        for (size_t c = first; c < first + width; ++c) {
          out[i][c] += weights[j] / sum * v[j][c];
        }
      }
    }
  }
  return out;
}

Rows Columns(const Rows& x, size_t begin, size_t end) {
  Rows part;
  for (const Row& row : x) part.emplace_back(&row[begin], &row[0] + end);
  return part;
}

Rows Sum(Rows a, const Rows& b) {
  for (size_t r = 0; r < a.size(); ++r) {
    for (size_t i = 0; i < a[r].size(); ++i) a[r][i] += b[r][i];
  }
  return a;
}

Rows Each(Rows x, const std::function<double(double)>& f) {
  for (Row& row : x) std::transform(row.begin(), row.end(), row.begin(), f);
  return x;
}

double GeluTanh(double x) {
  return x / 2 *
         (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double Swish(double x) { return x / (1 + std::exp(-x)); }

void ExpectNear(const RandomModel& model, const Tensor& x,
                const Rows& expected) {
  Context context({2, ""});
  const auto rows = static_cast<int64_t>(expected.size());
  const auto classes = static_cast<int64_t>(expected[0].size());
  Tensor logits(DType::kF32, {rows, classes});
  model.model->Logits(context, x.view(), logits.view());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < classes; ++c) {
      const double ref = expected[r][c];
      ASSERT_NEAR(logits.As<float>()[r * classes + c], ref,
                  2e-4 * std::max(1.0, std::abs(ref)))
          << r << ", " << c;
    }
  }
}

const std::vector<int32_t> kIds = {5, 1, 17, 3, 3, 21, 9, 0, 12};
const std::vector<int32_t> kTarget = {0, 8, 19, 2, 7};

// scale(layer): what the scores are multiplied by.
void ExpectGpt2(const std::string& more,
                const std::function<double(int)>& scale) {
  const std::string json =
      R"({"model_type": "gpt2", "vocab_size": 23, "n_embd": 35, "n_head": 5,
          "n_layer": 3, "n_positions": 24, "n_inner": 17, )" +
      more + "}";
  const RandomModel model(json.c_str());
  const Naive naive(model);
  Rows x;
  for (size_t t = 0; t < kIds.size(); ++t) {
    x.push_back(Sum({naive.Embed("transformer.wte.weight", kIds[t], 1)},
                    {naive.Embed("transformer.wpe.weight",
                                 static_cast<int32_t>(t), 1)})[0]);
  }
  for (int layer = 0; layer < 3; ++layer) {
    const std::string name = "transformer.h." + std::to_string(layer) + ".";
    const Rows qkv =
        naive.Dense(naive.Norm(x, name + "ln_1"), name + "attn.c_attn", true);
    const Rows heads = Attend(Columns(qkv, 0, 35), Columns(qkv, 35, 70),
                              Columns(qkv, 70, 105), {5, scale(layer), true});
    x = Sum(x, naive.Dense(heads, name + "attn.c_proj", true));
    const Rows hidden =
        naive.Dense(naive.Norm(x, name + "ln_2"), name + "mlp.c_fc", true);
    x = Sum(x, naive.Dense(Each(hidden, GeluTanh), name + "mlp.c_proj", true));
  }
  x = naive.Norm(x, "transformer.ln_f");
  Context context({2, ""});
  const int64_t lengths[] = {static_cast<int64_t>(kIds.size())};
  ExpectNear(model,
             Forward(context, *model.model, {.ids = kIds, .lengths = lengths}),
             naive.Logits(x, "transformer.wte.weight"));
}

TEST(OddShapes, Gpt2DividesScoresByTheLayersNumber) {
  ExpectGpt2(R"("scale_attn_by_inverse_layer_idx": true,
                "reorder_and_upcast_attn": true)",
             [](int layer) { return 1 / std::sqrt(7.0) / (layer + 1); });
}

TEST(OddShapes, Gpt2MayLeaveScoresUnscaled) {
  ExpectGpt2(R"("scale_attn_weights": false)", [](int) { return 1; });
  ExpectGpt2(R"("scale_attn_weights": false,
                "scale_attn_by_inverse_layer_idx": true)",
             [](int layer) { return 1.0 / (layer + 1); });
}

constexpr const char* kMarian =
    R"({"model_type": "marian", "vocab_size": 23, "d_model": 33,
        "encoder_layers": 1, "decoder_layers": 2,
        "encoder_attention_heads": 3, "decoder_attention_heads": 11,
        "encoder_ffn_dim": 14, "decoder_ffn_dim": 21,
        "max_position_embeddings": 24, "scale_embedding": true,
        "activation_function": "swish", "pad_token_id": 0, "eos_token_id": 2,
        "decoder_start_token_id": 0})";

// Marian's post-norm stacks.
class NaiveMarian {
 public:
  explicit NaiveMarian(const RandomModel& model) : naive_(model) {}

  Rows Run(const std::string& side, int layers, int64_t heads,
           const std::vector<int32_t>& ids, const Rows* memory) const {
    Rows x;
    for (size_t t = 0; t < ids.size(); ++t) {
      x.push_back(naive_.Embed("model.shared.weight", ids[t], std::sqrt(33.0)));
      for (size_t i = 0; i < 33; ++i) {
        // Seventeen sines, then sixteen cosines.
        const size_t pair = i < 17 ? i : i - 17;
        const double angle =
            static_cast<double>(t) *
            std::pow(10000, -2 * static_cast<double>(pair) / 33);
        x.back()[i] += i < 17 ? std::sin(angle) : std::cos(angle);
      }
    }
    for (int layer = 0; layer < layers; ++layer) {
      const std::string name =
          "model." + side + ".layers." + std::to_string(layer) + ".";
      x = Half(x, x, name + "self_attn", {heads, 0, memory != nullptr});
      if (memory != nullptr) {
        x = Half(x, *memory, name + "encoder_attn", {heads, 0, false});
      }
      const Rows hidden = Each(naive_.Dense(x, name + "fc1", false), Swish);
      x = naive_.Norm(Sum(x, naive_.Dense(hidden, name + "fc2", false)),
                      name + "final_layer_norm");
    }
    return x;
  }

  Rows Logits(const Rows& x) const {
    return naive_.Logits(x, "model.shared.weight");
  }

 private:
  Rows Half(const Rows& x, const Rows& memory, const std::string& name,
            Heads heads) const {
    heads.scale = 1 / std::sqrt(33.0 / static_cast<double>(heads.count));
    const Rows out =
        Attend(naive_.Dense(x, name + ".q_proj", false),
               naive_.Dense(memory, name + ".k_proj", false),
               naive_.Dense(memory, name + ".v_proj", false), heads);
    return naive_.Norm(Sum(x, naive_.Dense(out, name + ".out_proj", false)),
                       name + "_layer_norm");
  }

  Naive naive_;
};

TEST(OddShapes, MarianMayDifferOnItsTwoSides) {
  const RandomModel model(kMarian);
  const NaiveMarian naive(model);
  const Rows memory = naive.Run("encoder", 1, 3, kIds, nullptr);
  const Rows expected =
      naive.Logits(naive.Run("decoder", 2, 11, kTarget, &memory));
  Context context({2, ""});
  const int64_t lengths[] = {static_cast<int64_t>(kIds.size())};
  const int64_t target_lengths[] = {static_cast<int64_t>(kTarget.size())};
  ExpectNear(model,
             Forward(context, *model.model,
                     {.ids = kIds,
                      .lengths = lengths,
                      .decoder_ids = kTarget,
                      .decoder_lengths = target_lengths}),
             expected);
  // The same token by token, through caches of both widths.
  Session session(context, *model.model);
  session.Encode(kIds);
  for (size_t t = 0; t < kTarget.size(); ++t) {
    const Tensor& logits = session.Feed({&kTarget[t], 1});
    for (size_t c = 0; c < expected[t].size(); ++c) {
      ASSERT_NEAR(logits.As<float>()[c], expected[t][c],
                  2e-4 * std::max(1.0, std::abs(expected[t][c])));
    }
  }
}

}  // namespace
}  // namespace headwise::odd_shapes_test
