// A transformer as a graph of ONNX operators. Door: ../onnx.h.
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "headwise/base/byte_size.h"
#include "headwise/error.h"
#include "headwise/export/onnx.h"
#include "headwise/export/onnx/graph.h"
#include "headwise/export/source.h"
#include "headwise/ops/rope/rope.h"

namespace headwise {
namespace {

// Of scores that are masked: no infinity, so that a row of padding alone is
// no NaN.
constexpr float kMasked = -1e30f;

void RequireDense(const Block& block, const BlockStep& step) {
  if (!step.experts) return;
  throw Error(ErrorCode::kUnsupported,
              {block.name() + "." + step.name(), "a dense feed-forward step",
               "a mixture of experts", "export to huggingface keeps it"});
}

void RequireNoBias(const AttentionLayer& layer) {
  if (layer.BiasName() == nullptr) return;
  throw Error(ErrorCode::kUnsupported,
              {layer.site().name, "scores of queries and keys alone",
               layer.BiasName(), ""});
}

class OnnxExporter {
 public:
  OnnxExporter(Context& context, const Model& model)
      : model_(model), config_(model.config()), graph_(context) {}

  void Write(const std::filesystem::path& path) {
    const OnnxValue ids = graph_.Input("input_ids");
    FindPositions(ids);
    OnnxValue x = Embed(ids);
    for (const Block& block : model_.stack().blocks) x = Run(block, x);
    if (model_.stack().final_norm) x = Normed(model_.stack().final_norm, x);
    if (model_.has_head()) {
      graph_.Output("logits", Head(x), config_.vocabulary);
    } else {
      graph_.Output("last_hidden_state", x, config_.width);
    }
    graph_.Write(path);
  }

 private:
  // Positions [N], the angles of rotary ones, and what padding hides.
  void FindPositions(const OnnxValue& ids) {
    const OnnxValue length =
        graph_.Op("Gather", {graph_.Op("Shape", {ids}), graph_.Integer(1)});
    positions_ =
        graph_.Op("Range", {graph_.Integer(0), length, graph_.Integer(1)});
    if (config_.positions == Positions::kRotary) {
      const OnnxValue column = graph_.Op(
          "Unsqueeze",
          {graph_.Op("Cast", {positions_}, {{"to", 1}}), graph_.Integers({1})});
      for (const RopeConfig& rope : config_.ropes) {
        const OnnxValue angles =
            graph_.Op("Mul", {column, Frequencies(rope, length)});
        turns_.push_back({Scaled(rope, graph_.Op("Cos", {angles})),
                          Scaled(rope, graph_.Op("Sin", {angles}))});
      }
    }
    if (config_.causal) return;
    const OnnxValue seen =
        graph_.Op("Unsqueeze",
                  {graph_.Input("attention_mask"), graph_.Integers({1, 2, 3})});
    padding_ = Hidden(graph_.Op("Cast", {seen}, {{"to", 9}}));
  }

  // [F] for sequences of `length`, which the graph finds out.
  OnnxValue Frequencies(const RopeConfig& rope, const OnnxValue& length) {
    const auto number = [&](double value) {
      return graph_.Number(static_cast<float>(value));
    };
    const OnnxValue usual = graph_.Vector(RopeFrequencies(rope));
    const int64_t original = rope.original_context;
    if (rope.scaling == RopeScaling::kLongrope) {
      return graph_.Op(
          "Where", {graph_.Op("Greater", {length, graph_.Integer(original)}),
                    graph_.Vector(RopeFrequencies(rope, original + 1)), usual});
    }
    if (rope.scaling != RopeScaling::kDynamic) return usual;
    // The base grows by growth^(D / (D − 2)), so that frequency i falls by
    // growth^(2i / (D − 2)).
    const OnnxValue longest =
        graph_.Op("Max", {graph_.Op("Cast", {length}, {{"to", 1}}),
                          number(static_cast<double>(original))});
    const OnnxValue stretch =
        graph_.Op("Div", {longest, number(static_cast<double>(original))});
    const OnnxValue growth =
        graph_.Op("Sub", {graph_.Op("Mul", {stretch, number(rope.factor)}),
                          number(rope.factor - 1)});
    std::vector<float> exponents;
    for (int64_t i = 0; i < rope.dims() / 2; ++i) {
      exponents.push_back(-2 * static_cast<float>(i) /
                          static_cast<float>(rope.dims() - 2));
    }
    return graph_.Op(
        "Mul", {usual, graph_.Op("Pow", {growth, graph_.Vector(exponents)})});
  }

  OnnxValue Scaled(const RopeConfig& rope, const OnnxValue& turns) {
    if (rope.scale == 1) return turns;
    return graph_.Op("Mul",
                     {turns, graph_.Number(static_cast<float>(rope.scale))});
  }

  // What is added to a layer's scores.
  OnnxValue MaskFor(int64_t window) {
    if (config_.causal) return CausalMask(window);
    return window == 0 ? padding_
                       : graph_.Op("Add", {padding_, BandMask(window)});
  }

  // What is added to scores: 0 where `seen`.
  OnnxValue Hidden(const OnnxValue& seen) {
    return graph_.Op("Where", {seen, graph_.Number(0), graph_.Number(kMasked)});
  }

  // [N, N]; window 0: all earlier keys.
  const OnnxValue& CausalMask(int64_t window) {
    OnnxValue& mask = masks_[window];
    if (!mask.empty()) return mask;
    const OnnxValue rows =
        graph_.Op("Unsqueeze", {positions_, graph_.Integers({1})});
    const OnnxValue columns =
        graph_.Op("Unsqueeze", {positions_, graph_.Integers({0})});
    OnnxValue seen = graph_.Op("LessOrEqual", {columns, rows});
    if (window > 0) {
      const OnnxValue first = graph_.Op("Sub", {rows, graph_.Integer(window)});
      seen = graph_.Op("And", {seen, graph_.Op("Greater", {columns, first})});
    }
    return mask = Hidden(seen);
  }

  // [N, N]: half a window to each side.
  const OnnxValue& BandMask(int64_t window) {
    OnnxValue& mask = masks_[window];
    if (!mask.empty()) return mask;
    const OnnxValue rows =
        graph_.Op("Unsqueeze", {positions_, graph_.Integers({1})});
    const OnnxValue columns =
        graph_.Op("Unsqueeze", {positions_, graph_.Integers({0})});
    const OnnxValue away =
        graph_.Op("Abs", {graph_.Op("Sub", {rows, columns})});
    return mask = Hidden(
               graph_.Op("LessOrEqual", {away, graph_.Integer(window / 2)}));
  }

  OnnxValue Embed(const OnnxValue& ids) {
    const Embeddings& e = model_.stack().embeddings;
    OnnxValue x = graph_.Op("Gather", {graph_.Weight(e.tokens), ids});
    if (e.scale != 1) x = graph_.Op("Mul", {x, graph_.Number(e.scale)});
    if (e.token_projection) x = Product(e.token_projection, x);
    if (e.positions) {
      const OnnxValue rows =
          graph_.Op("Add", {positions_, graph_.Integer(e.position_offset)});
      x = graph_.Op(
          "Add", {x, graph_.Op("Gather", {graph_.Weight(e.positions), rows})});
    }
    if (e.types) {
      const OnnxValue first =
          graph_.Op("Gather", {graph_.Weight(e.types), graph_.Integer(0)});
      x = graph_.Op("Add", {x, first});
    }
    if (e.norm) x = Normed(e.norm, x);
    return e.projection ? Product(e.projection, x) : x;
  }

  OnnxValue Run(const Block& block, OnnxValue x) {
    OnnxValue read, input;
    for (const BlockStep& step : block.steps()) {
      RequireDense(block, step);
      if (step.input == StepInput::kStream) read = x;
      if (step.input != StepInput::kShared) {
        input = step.before ? Normed(step.before, read) : read;
      }
      OnnxValue made = step.kind == StepKind::kFeedForward
                           ? Feed(step.mlp, input)
                           : Attend(step.attention, input);
      if (step.after) made = Normed(step.after, made);
      if (step.scale != 1) {
        made = graph_.Op("Mul", {made, graph_.Number(step.scale)});
      }
      x = graph_.Op("Add", {x, made});
      if (step.stream_scale != 1) {
        x = graph_.Op("Mul", {x, graph_.Number(step.stream_scale)});
      }
      if (step.joined) x = Normed(step.joined, x);
    }
    return x;
  }

  OnnxValue Factors(const Norm& norm) {
    const OnnxValue stored = graph_.Weight(norm.weight_parameter());
    if (norm.offset() == 0) return stored;
    return graph_.Op("Add", {stored, graph_.Number(norm.offset())});
  }

  // Queries or keys [B, N, heads · D] by head; norms of all heads together come
  // first, norms of each head behind.
  OnnxValue NormedHeads(const HeadNorms& norms, OnnxValue x, int64_t groups,
                        int64_t in_group, int64_t dim) {
    const bool alike = norms && norms.IsAlike(dim);
    if (norms && !alike) x = Normed(norms.norms()[0], x);
    x = ByHead(x, groups, in_group, dim);
    return alike ? Normed(norms.norms()[0], x) : x;
  }

  OnnxValue Normed(const Norm& norm, const OnnxValue& x) {
    const OnnxValue weight = Factors(norm);
    if (norm.kind() == NormKind::kLayer) {
      std::vector<OnnxValue> inputs = {x, weight};
      if (norm.bias_parameter()) {
        inputs.push_back(graph_.Weight(norm.bias_parameter()));
      }
      return graph_.LayerNorm(inputs, norm.epsilon());
    }
    const OnnxValue squares = graph_.Mean(graph_.Op("Mul", {x, x}));
    const OnnxValue root = graph_.Op(
        "Sqrt", {graph_.Op("Add", {squares, graph_.Number(norm.epsilon())})});
    return graph_.Op("Mul", {graph_.Op("Div", {x, root}), weight});
  }

  OnnxValue Product(const StoredMatrix& matrix, const OnnxValue& x) {
    OnnxValue weight = graph_.Weight(matrix.weight);
    if (matrix.layout == WeightLayout::kOutIn) {
      weight = graph_.Transpose(weight, {1, 0});
    }
    const OnnxValue y = graph_.Op("MatMul", {x, weight});
    if (!matrix.bias) return y;
    return graph_.Op("Add", {y, graph_.Weight(matrix.bias)});
  }
  OnnxValue Product(const Linear& linear, const OnnxValue& x) {
    return Product(linear.Stored(0, linear.out()), x);
  }

  // One value for each of `sizes`, columns of the product in turn.
  std::vector<OnnxValue> Products(const Linear& linear, const OnnxValue& x,
                                  const std::vector<int64_t>& sizes) {
    if (linear.is_one_matrix() && sizes.size() > 1) {
      return graph_.Split(Product(linear, x), sizes);
    }
    std::vector<OnnxValue> values;
    int64_t at = 0;
    for (const int64_t size : sizes) {
      values.push_back(Product(linear.Stored(at, at + size), x));
      at += size;
    }
    return values;
  }

  // Pairs (i, i + F) of x […, N, D] turn by their angles.
  OnnxValue Turned(const OnnxValue& x, const LayerShape& layer) {
    const RopeConfig& rope = config_.ropes[static_cast<size_t>(layer.rope)];
    const auto& [cosines, sines] = turns_[static_cast<size_t>(layer.rope)];
    const int64_t half = std::ssize(RopeFrequencies(rope));
    const int64_t rest = config_.HeadDim(layer) - 2 * half;
    std::vector<int64_t> sizes = {half, half};
    if (rest > 0) sizes.push_back(rest);
    auto parts = graph_.Split(x, sizes);
    const OnnxValue left =
        graph_.Op("Sub", {graph_.Op("Mul", {parts[0], cosines}),
                          graph_.Op("Mul", {parts[1], sines})});
    const OnnxValue right =
        graph_.Op("Add", {graph_.Op("Mul", {parts[1], cosines}),
                          graph_.Op("Mul", {parts[0], sines})});
    parts[0] = left;
    parts[1] = right;
    return graph_.Op("Concat", parts, {{"axis", -1}});
  }

  // x [B, N, groups · in_group · D] as [B, groups, in_group, N, D].
  OnnxValue ByHead(const OnnxValue& x, int64_t groups, int64_t in_group,
                   int64_t dim) {
    return graph_.Transpose(graph_.Reshape(x, {0, 0, groups, in_group, dim}),
                            {0, 2, 3, 1, 4});
  }

  // Queries of a group share its keys: the products broadcast.
  OnnxValue Attend(const AttentionLayer& layer, const OnnxValue& x) {
    const AttentionLayerConfig& config = layer.config();
    const AttentionWeights& weights = layer.weights();
    RequireNoBias(layer);
    if (config.heads == 0) return Folded(layer.output(), x);
    const int64_t dim = config.head_dim, value = layer.value_dim();
    const int64_t heads = config.heads, groups = config.kv_heads;
    const auto made = Products(*layer.inputs()[0], x,
                               {heads * dim, groups * dim, groups * value});
    OnnxValue q =
        NormedHeads(weights.query_norm, made[0], groups, heads / groups, dim);
    OnnxValue k = NormedHeads(weights.key_norm, made[1], groups, 1, dim);
    const OnnxValue v = ByHead(made[2], groups, 1, value);
    if (weights.rope != nullptr) {
      const LayerShape& shape =
          config_.layers[static_cast<size_t>(layer.site().layer)];
      q = Turned(q, shape);
      k = Turned(k, shape);
    }
    const float scale = config.scale != 0
                            ? config.scale
                            : 1 / std::sqrt(static_cast<float>(dim));
    OnnxValue scores =
        graph_.Op("MatMul", {graph_.Op("Mul", {q, graph_.Number(scale)}),
                             graph_.Transpose(k, {0, 1, 2, 4, 3})});
    const int64_t window =
        config_.layers[static_cast<size_t>(layer.site().layer)].window;
    scores = graph_.Op("Add", {scores, MaskFor(window)});
    const OnnxValue seen = graph_.Op(
        "MatMul", {graph_.Op("Softmax", {scores}, {{"axis", -1}}), v});
    const OnnxValue joined = graph_.Reshape(
        graph_.Transpose(seen, {0, 3, 1, 2, 4}), {0, 0, heads * value});
    return Product(layer.output(), joined);
  }

  // A layer without heads adds its bias alone.
  OnnxValue Folded(const Linear& output, const OnnxValue& x) {
    const OnnxValue nothing = graph_.Op("Mul", {x, graph_.Number(0)});
    const Parameter& bias = output.bias();
    return bias ? graph_.Op("Add", {nothing, graph_.Weight(bias)}) : nothing;
  }

  OnnxValue Feed(const Mlp& mlp, const OnnxValue& x) {
    if (!mlp.gated()) {
      return Product(mlp.down(),
                     Activated(mlp.activation(), Product(mlp.in(), x)));
    }
    const auto both = Products(mlp.in(), x, {mlp.hidden(), mlp.hidden()});
    return Product(
        mlp.down(),
        graph_.Op("Mul", {Activated(mlp.activation(), both[0]), both[1]}));
  }

  OnnxValue Activated(Activation activation, const OnnxValue& x) {
    const auto half_of_x_times = [&](const OnnxValue& curve) {
      const OnnxValue one = graph_.Op("Add", {curve, graph_.Number(1)});
      return graph_.Op("Mul",
                       {graph_.Op("Mul", {x, graph_.Number(0.5f)}), one});
    };
    switch (activation) {
      case Activation::kRelu:
        return graph_.Op("Relu", {x});
      case Activation::kTanh:
        return graph_.Op("Tanh", {x});
      case Activation::kSilu:
        return graph_.Op("Mul", {x, graph_.Op("Sigmoid", {x})});
      case Activation::kGelu:
        return half_of_x_times(graph_.Op(
            "Erf", {graph_.Op("Mul", {x, graph_.Number(0.70710678f)})}));
      case Activation::kGeluTanh:
        break;
      case Activation::kClampedSilu:
        throw Error(
            ErrorCode::kUnsupported,
            {"onnx", "an activation of dense layers", "a clamped silu", ""});
    }
    const OnnxValue cube = graph_.Op("Mul", {x, graph_.Op("Mul", {x, x})});
    const OnnxValue sum = graph_.Op(
        "Add", {x, graph_.Op("Mul", {cube, graph_.Number(0.044715f)})});
    return half_of_x_times(graph_.Op(
        "Tanh", {graph_.Op("Mul", {sum, graph_.Number(0.79788456f)})}));
  }

  OnnxValue Head(OnnxValue x) {
    const VocabularyHead& head = model_.head();
    if (head.transform) x = Product(head.transform, x);
    if (head.norm) x = Normed(head.norm, Activated(head.activation, x));
    if (head.scale != 1) x = graph_.Op("Mul", {x, graph_.Number(head.scale)});
    x = Product(head.vocabulary, x);
    if (head.bias) x = graph_.Op("Add", {x, graph_.Weight(head.bias)});
    const auto scaled = [&](float factor) {
      return graph_.Op("Mul", {x, graph_.Number(factor)});
    };
    if (head.soft_cap == 0) return x;
    x = scaled(1 / head.soft_cap);
    x = graph_.Op("Tanh", {x});
    return scaled(head.soft_cap);
  }

  const Model& model_;
  const ModelConfig& config_;
  OnnxGraph graph_;
  OnnxValue positions_, padding_;
  struct Turns {
    OnnxValue cosines, sines;  // [N, F]
  };
  std::vector<Turns> turns_;            // by config_.ropes
  std::map<int64_t, OnnxValue> masks_;  // by window
};

// Protobuf's messages end at 2 GiB; weights are f32 here.
void RequireRoom(const Checkpoint& checkpoint) {
  double bytes = 0;
  const auto add = [&](const Linear& linear) {
    bytes += 4.0 * static_cast<double>(linear.in() * linear.out());
  };
  const ModelConfig& config = checkpoint.config();
  bytes += 8.0 * static_cast<double>(config.vocabulary * config.width);
  for (const Block& block : checkpoint.model().stack().blocks) {
    for (const Linear* linear : block.linears()) add(*linear);
  }
  if (bytes < std::numeric_limits<int32_t>::max()) return;
  throw Error(
      ErrorCode::kUnsupported,
      {checkpoint.folder().string(),
       "weights of less than 2 GiB in f32, as much as an ONNX file "
       "holds",
       ByteSize(static_cast<uint64_t>(bytes)), "export gguf or safetensors"});
}

}  // namespace

std::string ExportOnnx(Context& context, const Checkpoint& checkpoint,
                       const std::filesystem::path& out) {
  const ModelConfig& config = checkpoint.config();
  RequirePlain(checkpoint.model(), checkpoint.folder().string());
  if (config.encoder_decoder()) {
    throw Error(ErrorCode::kUnsupported,
                {checkpoint.folder().string(), "a model of one stack",
                 "an encoder–decoder", "export to huggingface keeps it"});
  }
  for (const RopeConfig& rope : config.ropes) {
    if (rope.pairs == RopePairs::kHalves) continue;
    throw Error(ErrorCode::kUnsupported,
                {checkpoint.folder().string(),
                 "rotary pairs of the halves of a head", "neighbours", ""});
  }
  RequireRoom(checkpoint);
  OnnxExporter(context, checkpoint.model()).Write(out);
  return config.family;
}

}  // namespace headwise
