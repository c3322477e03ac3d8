// Losses by kind of model. Door: objective.h.
#include "headwise/heads/importance/objective.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/heads/importance/host_values.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/loss/loss.h"
#include "headwise/ops/matmul/matmul.h"
#include "headwise/tensor/slice.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

// Logits of one block of rows take at most this many values (16 MiB), which
// keeps products at full speed and a vocabulary of 150 000 in bounds; on a
// device 1 GiB.
constexpr int64_t kMostLogits = int64_t{1} << 22;
constexpr int64_t kMostDeviceLogits = int64_t{1} << 28;

// How logits of blocks of rows lie. On a device rows are padded, so that
// products write whole lines; nobody reads the padding.
struct LogitBlock {
  LogitBlock(const Context& context, int64_t classes, int64_t rows) {
    constexpr int64_t kLine = 64, kTile = 128;
    const bool on_host = context.device().is_cpu();
    stride = on_host ? classes : (classes + kLine - 1) / kLine * kLine;
    const int64_t most =
        on_host
            ? std::clamp<int64_t>(kMostLogits / classes, 16, 1024)
            : std::max(kMostDeviceLogits / stride / kTile, int64_t{1}) * kTile;
    size = std::min(most, rows);
  }
  int64_t size = 0;    // rows
  int64_t stride = 0;  // of a row
};

// [B, d]: the mean row of each sequence of x, f32 on the host, which starts at
// row `first`.
Tensor MeanPooled(const SequenceBatch& batch, ConstTensorView x,
                  int64_t first) {
  const int64_t width = x.shape[1];
  Tensor pooled(DType::kF32, {batch.sequences(), width});
  std::vector<double> sum(width);
  for (int64_t b = 0; b < batch.sequences(); ++b) {
    std::fill(sum.begin(), sum.end(), 0.0);
    for (int64_t t = batch.starts[b]; t < batch.starts[b + 1]; ++t) {
      const float* row = x.As<float>() + (first + t) * width;
      for (int64_t i = 0; i < width; ++i) sum[i] += row[i];
    }
    const double count = batch.starts[b + 1] - batch.starts[b];
    for (int64_t i = 0; i < width; ++i) {
      pooled.As<float>()[b * width + i] = static_cast<float>(sum[i] / count);
    }
  }
  return pooled;
}

double Cosine(const float* a, const float* b, int64_t width) {
  double ab = 0, aa = 0, bb = 0;
  for (int64_t i = 0; i < width; ++i) {
    ab += static_cast<double>(a[i]) * b[i];
    aa += static_cast<double>(a[i]) * a[i];
    bb += static_cast<double>(b[i]) * b[i];
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

// States were finite (Model): what is left is a vocabulary whose logits are
// not, in rows that Model did not look at.
void RequireFiniteLosses(std::span<const double> losses) {
  for (const double loss : losses) {
    if (std::isfinite(loss)) continue;
    throw Error(ErrorCode::kCorrupt, {"loss", "finite numbers",
                                      std::isnan(loss) ? "NaN" : "infinity",
                                      "the model's logits overflow"});
  }
}

void AddSequence(std::span<const int32_t> ids, std::vector<int32_t>& all,
                 SequenceBatch& batch) {
  all.insert(all.end(), ids.begin(), ids.end());
  for (size_t i = 0; i < ids.size(); ++i) {
    batch.positions.push_back(static_cast<int32_t>(i));
  }
  batch.starts.push_back(static_cast<int32_t>(all.size()));
}

// `more` behind `batch`.
void Append(const SequenceBatch& more, SequenceBatch& batch) {
  if (batch.starts.empty()) batch.starts.push_back(0);
  const int32_t rows = batch.starts.back();
  for (size_t b = 1; b < more.starts.size(); ++b) {
    batch.starts.push_back(rows + more.starts[b]);
  }
  batch.positions.insert(batch.positions.end(), more.positions.begin(),
                         more.positions.end());
}
template <typename T>
void Append(const std::vector<T>& more, std::vector<T>& all) {
  all.insert(all.end(), more.begin(), more.end());
}

}  // namespace

ExampleBatch Joined(std::span<const ExampleBatch* const> batches) {
  ExampleBatch all;
  for (const ExampleBatch* one : batches) {
    Append(one->ids, all.ids);
    Append(one->sequences, all.sequences);
    Append(one->decoder_ids, all.decoder_ids);
    Append(one->decoder_sequences, all.decoder_sequences);
    Append(one->targets, all.targets);
    Append(one->weights, all.weights);
    Append(one->added, all.added);
  }
  if (batches[0]->reference.size() == 0) return all;
  all.reference =
      Tensor(DType::kF32, {all.size(), batches[0]->reference.shape(1)});
  float* to = all.reference.As<float>();
  for (const ExampleBatch* one : batches) {
    to = std::copy_n(one->reference.As<float>(), one->reference.size(), to);
  }
  return all;
}

const char* Name(LossKind kind) {
  switch (kind) {
    case LossKind::kNextToken:
      return "next-token";
    case LossKind::kMaskedToken:
      return "masked-token";
    case LossKind::kTargetTokens:
      return "target-tokens";
    case LossKind::kEmbeddingCosine:
      return "embedding-cosine";
    case LossKind::kContrastive:
      return "contrastive";
  }
  return "?";
}

const char* Describe(LossKind kind) {
  switch (kind) {
    case LossKind::kNextToken:
      return "cross-entropy of the next token, nats";
    case LossKind::kMaskedToken:
      return "cross-entropy of masked tokens, nats";
    case LossKind::kTargetTokens:
      return "cross-entropy of target tokens, teacher forced, nats";
    case LossKind::kEmbeddingCosine:
      return "1 − cosine to the mean-pooled embedding of the whole model: it "
             "has no vocabulary head";
    case LossKind::kContrastive:
      return "cross-entropy of finding a text's second half by its first among "
             "those of the batch, and the other way round, by the cosine of "
             "mean-pooled embeddings (temperature .05), nats";
  }
  return "";
}

LossKind LossOf(const Model& model) {
  if (!model.has_head()) return LossKind::kEmbeddingCosine;
  if (model.config().encoder_decoder()) return LossKind::kTargetTokens;
  return model.config().causal ? LossKind::kNextToken : LossKind::kMaskedToken;
}

DType LogitType(const Model& model) {
  return model.head().vocabulary.has_bias() ? model.type() : DType::kF32;
}

Objective::Objective(const Model& model, ObjectiveOptions options)
    : model_(model), options_(options), kind_(LossOf(model)) {
  if (kind_ == LossKind::kMaskedToken && options_.mask_token < 0) {
    throw Error(ErrorCode::kInvalidArgument,
                {"loss", "a mask token for the masked-token loss", "none",
                 "its tokenizer should know [MASK] or <mask>"});
  }
}

ExampleBatch Objective::Prepare(std::span<const TextExample> examples,
                                int64_t first) const {
  ExampleBatch batch;
  batch.sequences.starts.push_back(0);
  batch.decoder_sequences.starts.push_back(0);
  for (size_t i = 0; i < examples.size(); ++i) {
    const TextExample& example = examples[i];
    const std::vector<int32_t>& predicted =
        kind_ == LossKind::kTargetTokens ? example.target : example.ids;
    if (predicted.size() < 2 || example.ids.empty()) {
      throw Error(ErrorCode::kInvalidArgument,
                  {"text", "at least two tokens",
                   std::to_string(predicted.size()), "give a longer text"});
    }
    AddSequence(example.ids, batch.ids, batch.sequences);
    AddTargets(example, batch);
    if (kind_ == LossKind::kMaskedToken) {
      Mask(example, first + static_cast<int64_t>(i), batch);
    }
  }
  return batch;
}

void Objective::AddTargets(const TextExample& example,
                           ExampleBatch& batch) const {
  auto shifted = [&](const std::vector<int32_t>& ids) {
    batch.targets.insert(batch.targets.end(), ids.begin() + 1, ids.end());
    batch.targets.push_back(kIgnoreTarget);
    batch.weights.push_back(static_cast<double>(ids.size()) - 1);
  };
  switch (kind_) {
    case LossKind::kNextToken:
      return shifted(example.ids);
    case LossKind::kTargetTokens:
      AddSequence(example.target, batch.decoder_ids, batch.decoder_sequences);
      return shifted(example.target);
    case LossKind::kMaskedToken:
      return;  // Mask chooses them
    case LossKind::kEmbeddingCosine:
    case LossKind::kContrastive:
      batch.weights.push_back(1);
      batch.added.insert(batch.added.end(), example.added.begin(),
                         example.added.end());
      batch.added.resize(batch.ids.size(), 0);
      return;
  }
}

// Hides tokens of the example that was added to the batch last.
void Objective::Mask(const TextExample& example, int64_t number,
                     ExampleBatch& batch) const {
  const int64_t count = static_cast<int64_t>(example.ids.size());
  const int64_t begin = static_cast<int64_t>(batch.ids.size()) - count;
  Rng rng(options_.seed, static_cast<uint64_t>(number));
  batch.targets.resize(begin + count, kIgnoreTarget);
  double hidden = 0;
  auto hide = [&](int64_t i) {
    batch.targets[begin + i] = example.ids[i];
    batch.ids[begin + i] = options_.mask_token;
    ++hidden;
  };
  std::vector<int64_t> open;
  for (int64_t i = 0; i < count; ++i) {
    if (!example.added.empty() && example.added[i] != 0) continue;
    open.push_back(i);
    if (rng.Uniform() < options_.mask_share) hide(i);
  }
  // A short sentence, too, has something to predict.
  if (hidden == 0 && !open.empty()) hide(open[rng.Below(open.size())]);
  batch.weights.push_back(hidden);
}

void Objective::SetReference(Context& context, ExampleBatch& batch,
                             ConstTensorView x) const {
  if (kind_ != LossKind::kEmbeddingCosine) return;
  Tensor copy;
  batch.reference = MeanPooled(batch.sequences, HostF32(context, x, copy), 0);
}

// A product of 50 257 columns has a seventh of the speed of one of 50 304.
void Objective::Logits(Context& context, const ConstTensorView& states,
                       const TensorView& logits) const {
  const VocabularyHead& head = model_.head();
  const int64_t classes = model_.config().vocabulary;
  const int64_t padded = logits.shape[1], width = states.shape[1];
  const bool is_product = head.is_product() && !head.bias &&
                          !head.vocabulary.has_bias() &&
                          head.vocabulary.is_one_matrix() &&
                          head.vocabulary.layout() == WeightLayout::kOutIn;
  if (padded == classes || !is_product) {
    return model_.Logits(context, states, Columns(logits, 0, classes));
  }
  if (padded_ == nullptr) {
    padded_ =
        std::make_shared<Tensor>(context, states.type, Shape{padded, width});
    Copy(context, head.vocabulary.weight().operand(),
         Rows(padded_->view(), 0, classes));
  }
  Matmul(context,
         {.m = states.shape[0],
          .n = padded,
          .k = width,
          .b = Operand::kTransposed},
         {.a = states, .b = padded_->view(), .c = logits});
}

std::vector<float> Objective::RowLosses(
    Context& context, ConstTensorView x, std::span<const int32_t> at,
    std::span<const int32_t> targets) const {
  const int64_t classes = model_.config().vocabulary;
  const int64_t all = std::ssize(at);
  const LogitBlock block(context, classes, all);
  const Temp in(context, x.type, {block.size, x.shape[1]});
  const Temp out(context, LogitType(model_), {block.size, block.stride});
  Temp memory[2];
  const ConstTensorView rows = OnDevice(context, ViewOf(at), memory[0]);
  const ConstTensorView wanted = OnDevice(context, ViewOf(targets), memory[1]);
  const Temp losses(context, DType::kF32, {all});
  for (int64_t begin = 0; begin < all; begin += block.size) {
    const int64_t end = std::min(begin + block.size, all);
    const TensorView states = Rows(in.view(), 0, end - begin);
    const TensorView logits = Rows(out.view(), 0, end - begin);
    GatherRows(context, x, Rows(rows, begin, end), states);
    Logits(context, states, logits);
    CrossEntropy(context, {},
                 {.logits = Columns(logits, 0, classes),
                  .targets = Rows(wanted, begin, end),
                  .losses = Rows(losses.view(), begin, end)});
  }
  return ToVector<float>(context, losses.view());
}

std::vector<double> Objective::Losses(Context& context,
                                      const ExampleBatch& batch,
                                      ConstTensorView x, int64_t copies) const {
  const SequenceBatch& sequences = batch.predicting();
  const int64_t count = sequences.sequences(), rows = sequences.total();
  const int64_t width = x.shape[1];
  std::vector<double> sums(copies * count, 0.0);
  if (kind_ == LossKind::kEmbeddingCosine) {
    Tensor copy;
    const ConstTensorView states = HostF32(context, x, copy);
    for (int64_t c = 0; c < copies; ++c) {
      const Tensor pooled = MeanPooled(sequences, states, c * rows);
      for (int64_t b = 0; b < count; ++b) {
        sums[c * count + b] =
            1 - Cosine(pooled.As<float>() + b * width,
                       batch.reference.As<float>() + b * width, width);
      }
    }
    RequireFiniteLosses(sums);
    return sums;
  }
  // Only rows that predict something pass through the vocabulary.
  std::vector<int32_t> at, targets;  // one entry a row
  std::vector<size_t> sum_of;
  for (int64_t c = 0; c < copies; ++c) {
    for (int64_t b = 0; b < count; ++b) {
      for (int64_t t = sequences.starts[b]; t < sequences.starts[b + 1]; ++t) {
        if (batch.targets[t] == kIgnoreTarget) continue;
        at.push_back(static_cast<int32_t>(c * rows + t));
        targets.push_back(batch.targets[t]);
        sum_of.push_back(static_cast<size_t>(c * count + b));
      }
    }
  }
  if (at.empty()) return sums;
  const std::vector<float> losses = RowLosses(context, x, at, targets);
  for (size_t i = 0; i < losses.size(); ++i) sums[sum_of[i]] += losses[i];
  RequireFiniteLosses(sums);
  return sums;
}

}  // namespace headwise
