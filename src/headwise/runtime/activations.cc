// Recording named activations. Door: activations.h.
#include "headwise/runtime/activations.h"

#include <algorithm>
#include <utility>

#include "headwise/base/nearest.h"
#include "headwise/error.h"
#include "headwise/observation.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

enum class Side : uint8_t { kSource, kTarget };

// An activation that a run gives, as far as its size goes.
struct Planned {
  std::string name;
  Side rows = Side::kSource;
  int64_t floats = 0;  // of a row; of probabilities: heads
  // Probabilities: what is attended to.
  bool dense = false;
  Side keys = Side::kSource;
};

void PlanAttention(const AttentionLayer& layer, Side side, int64_t width,
                   std::vector<Planned>& plan) {
  const AttentionLayerConfig& config = layer.config();
  const Side keys = layer.cross() ? Side::kSource : side;
  const std::string& name = layer.site().name;
  plan.push_back({name + ".query", side, config.heads * config.head_dim});
  plan.push_back({name + ".key", keys, config.kv_heads * config.head_dim});
  plan.push_back({name + ".value", keys, config.kv_heads * layer.value_dim()});
  plan.push_back({name + ".probs", side, config.heads, true, keys});
  plan.push_back(
      {name + ".head_output", side, config.heads * layer.value_dim()});
  plan.push_back({name + ".output", side, width});
}

void PlanStack(const Stack& stack, Side side, int64_t width,
               std::vector<Planned>& plan) {
  plan.push_back({stack.prefix + "embedding", side, width});
  for (const Block& block : stack.blocks) {
    const std::string& name = block.parts().name;
    plan.push_back({name + ".input", side, width});
    PlanAttention(block.parts().attention, side, width, plan);
    if (block.parts().has_cross) {
      PlanAttention(block.parts().cross, side, width, plan);
    }
    plan.push_back({name + ".mlp.output", side, width});
    plan.push_back({name + ".output", side, width});
  }
  plan.push_back({stack.prefix + "final", side, width});
}

// Everything that a run of this model can give.
std::vector<Planned> PlanOf(const Model& model) {
  const int64_t width = model.config().width;
  std::vector<Planned> plan;
  PlanStack(model.stack(), Side::kSource, width, plan);
  Side last = Side::kSource;
  if (model.decoder() != nullptr) {
    last = Side::kTarget;
    PlanStack(*model.decoder(), last, width, plan);
  }
  if (model.has_head()) {
    plan.push_back({"logits", last, model.config().vocabulary});
  }
  return plan;
}

bool Matches(const std::vector<std::string>& patterns, std::string_view name) {
  return std::any_of(
      patterns.begin(), patterns.end(),
      [&](const std::string& p) { return MatchesPattern(p, name); });
}

// What the patterns ask for. Throws Error(kNotFound) for one that asks for
// nothing.
std::vector<Planned> Chosen(const Model& model,
                            const std::vector<std::string>& patterns) {
  std::vector<Planned> plan = PlanOf(model);
  for (const std::string& pattern : patterns) {
    if (std::any_of(plan.begin(), plan.end(), [&](const Planned& one) {
          return MatchesPattern(pattern, one.name);
        })) {
      continue;
    }
    throw Error(
        ErrorCode::kNotFound,
        {"activations", "names that this model has", pattern,
         "did you mean " + Nearest(pattern, ActivationNames(model)) + "?"});
  }
  std::erase_if(
      plan, [&](const Planned& one) { return !Matches(patterns, one.name); });
  return plan;
}

int64_t Longest(const ForwardInput& input, Side side) {
  const std::span<const int64_t> lengths =
      side == Side::kSource ? input.lengths : input.decoder_lengths;
  return lengths.empty() ? 0
                         : *std::max_element(lengths.begin(), lengths.end());
}

// Before anything is run.
void RequireDense(const std::vector<Planned>& plan, const ForwardInput& input) {
  for (const Planned& one : plan) {
    if (!one.dense) continue;
    const int64_t tokens =
        std::max(Longest(input, one.rows), Longest(input, one.keys));
    if (tokens <= kMostDenseTokens) continue;
    throw Error(
        ErrorCode::kInvalidArgument,
        {one.name,
         "at most " + std::to_string(kMostDenseTokens) +
             " tokens for dense probabilities",
         std::to_string(tokens), "profile the text instead, or shorten it"});
  }
}

// [T, …] rows of sequences end to end as [B, longest, …] on the host, zero past
// the end.
Tensor Padded(Context& context, ConstTensorView rows,
              const SequenceBatch& batch) {
  Tensor copy;
  rows = OnHost(context, rows, copy);
  std::vector<int64_t> shape = {batch.sequences(), batch.longest()};
  shape.insert(shape.end(), rows.shape.begin() + 1,
               rows.shape.begin() + rows.rank);
  Tensor padded(DType::kF32, Shape(shape));
  for (int64_t b = 0; b < batch.sequences(); ++b) {
    const int64_t begin = batch.starts[b], end = batch.starts[b + 1];
    Copy(context, Rows(rows, begin, end),
         Rows(At(padded.view(), 0, b), 0, end - begin));
  }
  return padded;
}

class Recorder : public RunHooks {
 public:
  // next: hooks that come first; may be null.
  Recorder(Context& context, const std::vector<std::string>& patterns,
           SequenceBatch batch, SequenceBatch target, RunHooks* next)
      : context_(context),
        next_(next),
        patterns_(patterns),
        batch_(std::move(batch)),
        target_(std::move(target)) {}

  bool Records(std::string_view name) const { return Matches(patterns_, name); }
  bool Wants(std::string_view name) const override {
    return Records(name) || (next_ != nullptr && next_->Wants(name));
  }

  void Take(std::string_view name, ConstTensorView value) override {
    if (next_ != nullptr && next_->Wants(name)) next_->Take(name, value);
    if (!Records(name)) return;
    const bool decoder = name.starts_with("decoder.");
    const bool memory = decoder && name.find(".cross.") != name.npos &&
                        (name.ends_with(".key") || name.ends_with(".value"));
    taken_[std::string(name)] =
        Padded(context_, value, decoder && !memory ? target_ : batch_);
  }

  void BeforeAttention(const AttentionSite& site,
                       const AttentionProblem& problem,
                       AttentionArgs& args) override {
    if (next_ != nullptr) next_->BeforeAttention(site, problem, args);
  }

  void AfterAttention(const AttentionSite& site,
                      const AttentionProblem& problem,
                      const AttentionArgs& args) override {
    if (next_ != nullptr) next_->AfterAttention(site, problem, args);
    const std::string name = site.name + ".probs";
    if (!Records(name)) return;
    const SequenceBatch& queries =
        site.kind == AttentionKind::kSelf ? batch_ : target_;
    taken_[name] = Probabilities(problem, args, queries);
  }

  std::map<std::string, Tensor>& taken() { return taken_; }
  const SequenceBatch& batch() const { return batch_; }
  const SequenceBatch& target() const { return target_; }

 private:
  // [B, heads, queries, keys] on the host, one sequence's rows at a time.
  Tensor Probabilities(const AttentionProblem& problem,
                       const AttentionArgs& args,
                       const SequenceBatch& queries) {
    const int64_t heads = problem.heads, keys = problem.key_len;
    const int64_t longest = queries.longest();
    Tensor all(DType::kF32, {queries.sequences(), heads, longest, keys});
    for (int64_t b = 0; b < queries.sequences(); ++b) {
      const int64_t count = queries.starts[b + 1] - queries.starts[b];
      std::vector<RowRef> rows;
      for (int64_t i = 0; i < count; ++i) rows.push_back({b, i});
      Tensor dense(context_, DType::kF32, {count, heads, keys}), copy;
      AttentionRows(context_, problem, args, rows, dense.view());
      Copy(context_, Transposed(OnHost(context_, dense.view(), copy), 0, 1),
           Slice(At(all.view(), 0, b), 1, 0, count));
    }
    return all;
  }

  Context& context_;
  RunHooks* next_;
  const std::vector<std::string>& patterns_;
  SequenceBatch batch_;
  SequenceBatch target_;
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
  for (Planned& one : PlanOf(model)) names.push_back(std::move(one.name));
  return names;
}

uint64_t ActivationBytes(const Model& model, const ForwardInput& input,
                         const std::vector<std::string>& patterns) {
  const std::vector<Planned> plan = Chosen(model, patterns);
  RequireDense(plan, input);
  uint64_t floats = 0;
  for (const Planned& one : plan) {
    const std::span<const int64_t> lengths =
        one.rows == Side::kSource ? input.lengths : input.decoder_lengths;
    floats += lengths.size() *
              static_cast<uint64_t>(Longest(input, one.rows) * one.floats) *
              static_cast<uint64_t>(one.dense ? Longest(input, one.keys) : 1);
  }
  return floats * sizeof(float);
}

std::map<std::string, Tensor> RecordActivations(
    Context& context, const Model& model, const ForwardInput& input,
    const std::vector<std::string>& patterns) {
  RequireDense(Chosen(model, patterns), input);
  Recorder recorder(context, patterns, MakeBatch(input.lengths),
                    MakeBatch(input.decoder_lengths), input.hooks);
  ForwardInput run = input;
  run.hooks = &recorder;
  const Tensor x = Forward(context, model, run);
  if (recorder.Records("logits") && model.has_head()) {
    Tensor logits(context, model.type(),
                  {x.shape(0), model.config().vocabulary});
    model.Logits(context, x.view(), logits.view());
    recorder.taken()["logits"] = Padded(
        context, std::as_const(logits).view(),
        model.decoder() != nullptr ? recorder.target() : recorder.batch());
  }
  return std::move(recorder.taken());
}

}  // namespace headwise
