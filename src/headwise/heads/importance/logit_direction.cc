// Rows of the vocabulary. Door: logit_direction.h.
#include "headwise/heads/importance/logit_direction.h"

#include <string>

#include "headwise/error.h"
#include "headwise/model/stream_sum.h"
#include "headwise/nn/finite.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

// Row `row` of a matrix parameter, or number `row` of a vector's.
Tensor Row(Context& context, const Parameter& parameter, int64_t row) {
  ConstTensorView view = parameter.value;
  const bool matrix = view.rank == 2 && view.shape[0] > 1;
  const int64_t offset = matrix ? row * view.stride[0] : row;
  ConstTensorView one(
      static_cast<const std::byte*>(view.data) + ByteOffset(view.type, offset),
      view.type, {matrix ? view.shape[1] : 1}, view.device);
  Tensor values = ToF32(context, {parameter.name, one});
  RequireFinite(context, parameter, values.view());
  return values;
}

const Linear& Vocabulary(const Model& model) { return model.head().vocabulary; }

// What the final states are multiplied with for the logit of a token.
Tensor DirectionOf(Context& context, const Model& model, int64_t id) {
  Tensor row = Row(context, Vocabulary(model).weight(), id);
  for (int64_t i = 0; i < row.size(); ++i) {
    row.As<float>()[i] *= model.head().scale;
  }
  return row;
}

}  // namespace

std::string WhyNoLogitDirections(const Model& model) {
  const VocabularyHead& head = model.head();
  if (!model.has_head()) return "no vocabulary head";
  if (head.transform) return "a layer before the vocabulary";
  if (head.soft_cap != 0) return "a soft cap of logits";
  if (head.vocabulary.layout() != WeightLayout::kOutIn) {
    return "a vocabulary [width, tokens]";
  }
  if (!model.predictor().final_norm) return "no final norm";
  return WhyNotSum(model.predictor());
}

bool HasLogitDirections(const Model& model) {
  return WhyNoLogitDirections(model).empty();
}

LogitDirection DirectionBetween(Context& context, const Model& model,
                                int32_t answer, int32_t other) {
  for (const int32_t id : {answer, other}) {
    if (id >= 0 && id < model.config().vocabulary) continue;
    throw Error(
        ErrorCode::kInvalidArgument,
        {"patch",
         "answers in [0, " + std::to_string(model.config().vocabulary) + ")",
         std::to_string(id), ""});
  }
  const Linear& part = Vocabulary(model);
  LogitDirection result;
  const Tensor a = DirectionOf(context, model, answer),
               b = DirectionOf(context, model, other);
  for (int64_t i = 0; i < a.size(); ++i) {
    result.direction.push_back(a.As<float>()[i] - b.As<float>()[i]);
  }
  for (const Parameter* bias : {&part.bias(), &model.head().bias}) {
    if (!*bias) continue;
    result.constant += Row(context, *bias, answer).As<float>()[0] -
                       Row(context, *bias, other).As<float>()[0];
  }
  return result;
}

AboveMeanDirections::AboveMeanDirections(Context& context, const Model& model)
    : context_(&context), model_(model), mean_(model.head().vocabulary.in()) {
  const int64_t rows = model.config().vocabulary;
  // One row at a time: the whole table in f32 may be large.
  for (int64_t row = 0; row < rows; ++row) {
    const Tensor values = DirectionOf(context, model, row);
    for (int64_t i = 0; i < values.size(); ++i) {
      mean_[i] += values.As<float>()[i] / static_cast<double>(rows);
    }
  }
}

LogitDirection AboveMeanDirections::Of(int32_t id) const {
  const Tensor values = DirectionOf(*context_, model_, id);
  LogitDirection result;
  for (int64_t i = 0; i < values.size(); ++i) {
    result.direction.push_back(
        static_cast<float>(values.As<float>()[i] - mean_[i]));
  }
  return result;
}

Tensor StreamDirections(Context& context, const Model& model,
                        ConstTensorView stream,
                        std::span<const LogitDirection> directions) {
  const Norm& norm = model.predictor().final_norm;
  const int64_t count = stream.shape[0], width = stream.shape[1];
  const Tensor gain = norm.Gain(context);
  const float* weight = gain.As<float>();
  NormSaved saved;
  {
    Temp memory;
    const ConstTensorView x = OnDevice(context, stream, memory);
    const Temp normed(context, x.type, {count, width});
    norm.Forward(context, x, normed.view(), &saved);
  }
  const auto scales = ToVector<float>(context, saved.scale.view());
  Tensor seen(DType::kF32, {count, width});  // zeros
  for (int64_t t = 0; t < count; ++t) {
    if (directions[t].direction.empty()) continue;
    float* row = seen.As<float>() + t * width;
    const double scale = scales[t];
    double mean = 0;
    for (int64_t i = 0; i < width; ++i) {
      row[i] = weight[i] * directions[t].direction[i];
      mean += row[i];
    }
    mean = model.config().norm == NormKind::kLayer
               ? mean / static_cast<double>(width)
               : 0;
    for (int64_t i = 0; i < width; ++i) {
      row[i] = static_cast<float>(scale * (row[i] - mean));
    }
  }
  return seen;
}

}  // namespace headwise
