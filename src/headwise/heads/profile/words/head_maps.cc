// Dense maps of short sequences. Door: head_maps.h.
#include "headwise/heads/profile/words/head_maps.h"

#include "headwise/head_ref.h"
#include "headwise/heads/profile/host_result.h"
#include "headwise/nn/hooks.h"
#include "headwise/observation.h"
#include "headwise/runtime/session.h"

namespace headwise {
namespace {

class MapHooks : public RunHooks {
 public:
  MapHooks(Context& context, AttentionKind kind,
           std::span<const int64_t> query_lengths, const SeeMap& see)
      : context_(context),
        kind_(kind),
        query_lengths_(query_lengths),
        see_(see) {}

  void AfterAttention(const AttentionSite& site,
                      const AttentionProblem& problem,
                      const AttentionArgs& args) override {
    if (site.kind != kind_) return;
    const int64_t heads = problem.heads, keys = problem.key_len;
    for (size_t s = 0; s < query_lengths_.size(); ++s) {
      std::vector<RowRef> rows;
      for (int64_t i = 0; i < query_lengths_[s]; ++i) {
        rows.push_back({static_cast<int64_t>(s), i});
      }
      HostResult probabilities(context_, DType::kF32,
                               {query_lengths_[s], heads, keys});
      AttentionRows(context_, problem, args, rows, probabilities.view());
      probabilities.Fetch(context_);
      for (int64_t h = 0; h < heads; ++h) {
        see_({site.kind, site.layer, h}, s,
             {probabilities.As<float>() + h * keys, heads * keys});
      }
    }
  }

 private:
  Context& context_;
  AttentionKind kind_;
  std::span<const int64_t> query_lengths_;
  const SeeMap& see_;
};

}  // namespace

void TokenBatch::Add(std::span<const int32_t> sequence) {
  ids.insert(ids.end(), sequence.begin(), sequence.end());
  lengths.push_back(static_cast<int64_t>(sequence.size()));
}

void TokenBatch::Clear() {
  ids.clear();
  lengths.clear();
}

void RunStack(Context& context, const Model& model, const TokenBatch& batch,
              RunHooks& hooks) {
  const SequenceBatch sequences = MakeBatch(batch.lengths);
  StackInput input;
  input.ids = batch.ids;
  input.batch = &sequences;
  input.hooks = &hooks;
  Tensor x(context, model.type(), {sequences.total(), model.config().width});
  model.Run(context, model.stack(), input, x.view());
}

void RunSelfMaps(Context& context, const Model& model, const TokenBatch& batch,
                 const SeeMap& see) {
  MapHooks hooks(context, AttentionKind::kSelf, batch.lengths, see);
  RunStack(context, model, batch, hooks);
}

void RunCrossMaps(Context& context, const Model& model,
                  const TokenBatch& source, const TokenBatch& target,
                  const SeeMap& see) {
  MapHooks hooks(context, AttentionKind::kCross, target.lengths, see);
  Forward(context, model,
          {.ids = source.ids,
           .lengths = source.lengths,
           .decoder_ids = target.ids,
           .decoder_lengths = target.lengths,
           .hooks = &hooks});
}

}  // namespace headwise
