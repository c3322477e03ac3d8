// Losses by kind of model. Door: objective.h.
#include "headwise/heads/importance/objective.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/heads/profile/host_result.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/loss/loss.h"
#include "headwise/tensor/slice.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

// Logits of one block of rows take at most this many values (16 MiB), which
// keeps products at full speed and a vocabulary of 150 000 in bounds.
constexpr int64_t kMostLogits = int64_t{1} << 22;

// [B, d]: the mean row of each sequence of x, which starts at row `first`.
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

// Numbers [begin, begin + count).
ConstTensorView Part(const std::vector<int32_t>& numbers, int64_t begin,
                     int64_t count) {
  return ViewOf(std::span(numbers).subspan(begin, count));
}

}  // namespace

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
                   std::to_string(predicted.size()), ""});
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

void Objective::SetReference(ExampleBatch& batch, ConstTensorView x) const {
  if (kind_ != LossKind::kEmbeddingCosine) return;
  batch.reference = MeanPooled(batch.sequences, x, 0);
}

std::vector<double> Objective::Losses(Context& context,
                                      const ExampleBatch& batch,
                                      ConstTensorView x, int64_t copies) const {
  const SequenceBatch& sequences = batch.predicting();
  const int64_t count = sequences.sequences(), rows = sequences.total();
  const int64_t width = x.shape[1];
  std::vector<double> sums(copies * count, 0.0);
  if (kind_ == LossKind::kEmbeddingCosine) {
    for (int64_t c = 0; c < copies; ++c) {
      const Tensor pooled = MeanPooled(sequences, x, c * rows);
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
  const int64_t classes = model_.config().vocabulary;
  const int64_t all = static_cast<int64_t>(at.size());
  if (all == 0) return sums;
  const int64_t block =
      std::min(std::clamp<int64_t>(kMostLogits / classes, 16, 1024), all);
  const Temp in(context, DType::kF32, {block, width});
  const Temp out(context, DType::kF32, {block, classes});
  HostResult losses(context, DType::kF32, {block});
  for (int64_t begin = 0; begin < all; begin += block) {
    const int64_t n = std::min(block, all - begin);
    const TensorView states = Rows(in.view(), 0, n);
    const TensorView logits = Rows(out.view(), 0, n);
    GatherRows(context, x, Part(at, begin, n), states);
    model_.Logits(context, states, logits);
    CrossEntropy(context, {},
                 {.logits = logits,
                  .targets = Part(targets, begin, n),
                  .losses = Rows(losses.view(), 0, n)});
    losses.Fetch(context);
    for (int64_t i = 0; i < n; ++i) {
      sums[sum_of[begin + i]] += losses.As<float>()[i];
    }
  }
  RequireFiniteLosses(sums);
  return sums;
}

}  // namespace headwise
