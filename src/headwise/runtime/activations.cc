// Recording named activations. Door: activations.h.
#include "headwise/runtime/activations.h"

#include <algorithm>
#include <utility>

#include "headwise/base/nearest.h"
#include "headwise/error.h"
#include "headwise/head_ref.h"
#include "headwise/observation.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

enum class Side : uint8_t { kSource, kTarget };

// An activation that a run gives, as far as its size goes.
struct ActivationSize {
  std::string name;
  Side rows = Side::kSource;
  int64_t floats = 0;  // of a row; of probabilities: heads
  // Probabilities: what is attended to.
  bool dense = false;
  Side keys = Side::kSource;
};

void AddAttention(const AttentionLayer& layer, Side side, int64_t width,
                  std::vector<ActivationSize>& sizes) {
  const AttentionLayerConfig& config = layer.config();
  const Side keys = layer.cross() ? Side::kSource : side;
  const std::string& name = layer.site().name;
  sizes.push_back({name + ".query", side, config.heads * config.head_dim});
  sizes.push_back({name + ".key", keys, config.kv_heads * config.head_dim});
  sizes.push_back({name + ".value", keys, config.kv_heads * layer.value_dim()});
  sizes.push_back({name + ".probs", side, config.heads, true, keys});
  sizes.push_back(
      {name + ".head_output", side, config.heads * layer.value_dim()});
  sizes.push_back({name + ".output", side, width});
}

// What each token's experts are; how often they are used has no rows.
void AddExperts(const Experts& experts, Side side,
                std::vector<ActivationSize>& sizes) {
  for (const char* which : {".router.logits", ".router.weights"}) {
    if (!experts) return;
    sizes.push_back(
        {experts.name() + which, side, std::ssize(experts.experts())});
  }
}

void AddStack(const Stack& stack, Side side, int64_t width,
              std::vector<ActivationSize>& sizes) {
  sizes.push_back({stack.prefix + "embedding", side, width});
  for (const Block& block : stack.blocks) {
    const std::string& name = block.name();
    sizes.push_back({name + ".input", side, width});
    for (const BlockStep& step : block.steps()) {
      if (step.kind == StepKind::kFeedForward) {
        AddExperts(step.experts, side, sizes);
        sizes.push_back({name + "." + step.name() + ".output", side, width});
      } else {
        AddAttention(step.attention, side, width, sizes);
      }
    }
    sizes.push_back({name + ".output", side, width});
  }
  sizes.push_back({stack.prefix + "final", side, width});
}

// All activations of a run of this model.
std::vector<ActivationSize> SizesOf(const Model& model) {
  const int64_t width = model.config().width;
  std::vector<ActivationSize> sizes;
  AddStack(model.stack(), Side::kSource, width, sizes);
  Side last = Side::kSource;
  if (model.decoder() != nullptr) {
    last = Side::kTarget;
    AddStack(*model.decoder(), last, width, sizes);
  }
  if (model.has_head()) {
    sizes.push_back({"logits", last, model.config().vocabulary});
  }
  return sizes;
}

bool Matches(const std::vector<std::string>& patterns, std::string_view name) {
  return std::any_of(
      patterns.begin(), patterns.end(),
      [&](const std::string& p) { return MatchesPattern(p, name); });
}

// The activations that match. Throws Error(kNotFound) for a pattern that none
// matches.
std::vector<ActivationSize> Chosen(const Model& model,
                                   const std::vector<std::string>& patterns) {
  std::vector<ActivationSize> sizes = SizesOf(model);
  for (const std::string& pattern : patterns) {
    if (std::any_of(sizes.begin(), sizes.end(), [&](const ActivationSize& one) {
          return MatchesPattern(pattern, one.name);
        })) {
      continue;
    }
    throw Error(
        ErrorCode::kNotFound,
        {"activations", "names that this model has", pattern,
         "did you mean " + Nearest(pattern, ActivationNames(model)) + "?"});
  }
  std::erase_if(sizes, [&](const ActivationSize& one) {
    return !Matches(patterns, one.name);
  });
  return sizes;
}

// Positions of a row of what is returned.
int64_t Width(const ForwardInput& input, const Padding& padding, Side side) {
  const bool source = side == Side::kSource;
  const std::span<const int64_t> lengths =
      source ? input.lengths : input.decoder_lengths;
  const int64_t width = source ? padding.source.width : padding.target.width;
  return lengths.empty() ? 0 : std::max(width, std::ranges::max(lengths));
}

// A side's sequences with where they lie in what is returned.
struct PaddedBatch {
  PaddedBatch(std::span<const int64_t> lengths, const PaddedRows& rows)
      : batch(MakeBatch(lengths)),
        width(std::max(rows.width, batch.longest())),
        first(lengths.size(), 0) {
    for (size_t b = 0; b < rows.first.size(); ++b) {
      first.at(b) = rows.first[b];
      if (first[b] >= 0 && first[b] + lengths[b] <= width) continue;
      throw Error(
          ErrorCode::kInvalidArgument,
          {"padding",
           "sequences within rows of " + std::to_string(width) + " positions",
           "one from " + std::to_string(first[b]) + " to " +
               std::to_string(first[b] + lengths[b]),
           "pad to longer rows"});
    }
  }

  SequenceBatch batch;
  int64_t width = 0;
  std::vector<int64_t> first;  // of each sequence
};

// Before anything is run.
void RequireDense(const std::vector<ActivationSize>& sizes,
                  const ForwardInput& input, const Padding& padding) {
  for (const ActivationSize& one : sizes) {
    if (!one.dense) continue;
    const int64_t tokens = std::max(Width(input, padding, one.rows),
                                    Width(input, padding, one.keys));
    if (tokens <= kMostDenseTokens) continue;
    throw Error(
        ErrorCode::kInvalidArgument,
        {one.name,
         "at most " + std::to_string(kMostDenseTokens) +
             " tokens for dense probabilities",
         std::to_string(tokens), "profile the text instead, or shorten it"});
  }
}

// [T, …] rows of sequences end to end as [B, width, …] on the host, zero where
// there is no sequence.
Tensor Padded(Context& context, ConstTensorView rows, const PaddedBatch& to) {
  const SequenceBatch& batch = to.batch;
  Tensor copy;
  rows = OnHost(context, rows, copy);
  std::vector<int64_t> shape = {batch.sequences(), to.width};
  shape.insert(shape.end(), rows.shape.begin() + 1,
               rows.shape.begin() + rows.rank);
  Tensor padded(DType::kF32, Shape(shape));
  for (int64_t b = 0; b < batch.sequences(); ++b) {
    const int64_t begin = batch.starts[b], end = batch.starts[b + 1];
    Copy(context, Rows(rows, begin, end),
         Rows(At(padded.view(), 0, b), to.first[b], to.first[b] + end - begin));
  }
  return padded;
}

class Recorder : public RunHooks {
 public:
  Recorder(Context& context, const std::vector<std::string>& patterns,
           PaddedBatch source, PaddedBatch target)
      : context_(context),
        patterns_(patterns),
        source_(std::move(source)),
        target_(std::move(target)) {}

  bool Records(std::string_view name) const { return Matches(patterns_, name); }
  bool Wants(std::string_view name) const override {
    return !name.ends_with(".router.use") && Records(name);
  }

  void Take(std::string_view name, ConstTensorView value) override {
    const bool decoder = name.starts_with("decoder.");
    const bool memory = decoder && name.find(".cross.") != name.npos &&
                        (name.ends_with(".key") || name.ends_with(".value"));
    taken_[std::string(name)] =
        Padded(context_, value, decoder && !memory ? target_ : source_);
  }

  void AfterAttention(const AttentionSite& site,
                      const AttentionProblem& problem,
                      const AttentionArgs& args) override {
    const std::string name = site.name + ".probs";
    if (!Records(name)) return;
    const bool of_source = site.kind == AttentionKind::kSelf;
    const bool to_target = site.kind == AttentionKind::kDecoder;
    taken_[name] = Probabilities(problem, args, of_source ? source_ : target_,
                                 to_target ? target_ : source_);
  }

  std::map<std::string, Tensor>& taken() { return taken_; }
  const PaddedBatch& source() const { return source_; }
  const PaddedBatch& target() const { return target_; }

 private:
  // [B, heads, queries, keys] on the host, one sequence's rows at a time.
  Tensor Probabilities(const AttentionProblem& problem,
                       const AttentionArgs& args, const PaddedBatch& queries,
                       const PaddedBatch& keys) {
    const int64_t heads = problem.heads, key_len = problem.key_len;
    const auto& starts = queries.batch.starts;
    Tensor all(DType::kF32,
               {queries.batch.sequences(), heads, queries.width, keys.width});
    for (int64_t b = 0; b < queries.batch.sequences(); ++b) {
      const int64_t count = starts[b + 1] - starts[b];
      const int64_t seen = keys.batch.starts[b + 1] - keys.batch.starts[b];
      std::vector<RowRef> rows;
      for (int64_t i = 0; i < count; ++i) rows.push_back({b, i});
      Tensor dense(context_, DType::kF32, {count, heads, key_len}), copy;
      AttentionRows(context_, problem, args, rows, dense.view());
      const ConstTensorView made =
          Slice(OnHost(context_, dense.view(), copy), 2, 0, seen);
      const int64_t query = queries.first[b], key = keys.first[b];
      Copy(context_, Transposed(made, 0, 1),
           Slice(Slice(At(all.view(), 0, b), 1, query, query + count), 2, key,
                 key + seen));
    }
    return all;
  }

  Context& context_;
  const std::vector<std::string>& patterns_;
  PaddedBatch source_;
  PaddedBatch target_;
  std::map<std::string, Tensor> taken_;
};

}  // namespace

bool MatchesPattern(std::string_view pattern, std::string_view name) {
  // Greedy matching with one point to return to: the last star.
  size_t p = 0, n = 0, star = std::string_view::npos, from = 0;
  while (n < name.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p, ++n;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++from;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::vector<std::string> ActivationNames(const Model& model) {
  std::vector<std::string> names;
  for (ActivationSize& one : SizesOf(model))
    names.push_back(std::move(one.name));
  return names;
}

uint64_t ActivationBytes(const Model& model, const ForwardInput& input,
                         const std::vector<std::string>& patterns,
                         const Padding& padding) {
  const std::vector<ActivationSize> sizes = Chosen(model, patterns);
  RequireDense(sizes, input, padding);
  uint64_t floats = 0;
  for (const ActivationSize& one : sizes) {
    const std::span<const int64_t> lengths =
        one.rows == Side::kSource ? input.lengths : input.decoder_lengths;
    const int64_t rows = Width(input, padding, one.rows);
    const int64_t keys = one.dense ? Width(input, padding, one.keys) : 1;
    floats += lengths.size() * static_cast<uint64_t>(rows * one.floats) *
              static_cast<uint64_t>(keys);
  }
  return floats * sizeof(float);
}

std::map<std::string, Tensor> RecordActivations(
    Context& context, const Model& model, const ForwardInput& input,
    const std::vector<std::string>& patterns, const Padding& padding) {
  RequireDense(Chosen(model, patterns), input, padding);
  Recorder recorder(context, patterns, {input.lengths, padding.source},
                    {input.decoder_lengths, padding.target});
  ForwardInput run = input;
  run.hooks.Add(&recorder);
  const Tensor x = Forward(context, model, run);
  if (recorder.Records("logits") && model.has_head()) {
    Tensor logits(context, model.type(),
                  {x.shape(0), model.config().vocabulary});
    model.Logits(context, x.view(), logits.view());
    recorder.taken()["logits"] = Padded(
        context, std::as_const(logits).view(),
        model.decoder() != nullptr ? recorder.target() : recorder.source());
  }
  return std::move(recorder.taken());
}

}  // namespace headwise
