// Rows, the band and their sums, layer by layer. Door: core_sums.h.
#include "headwise/heads/profile/core_sums.h"

#include <string>
#include <utility>

#include "headwise/error.h"
#include "headwise/heads/profile/rows/core_rows.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

// One side of a run's sequences.
CoreSums::Side SideOn(Context& context,
                      std::span<const CoreSums::Specials> sequences,
                      std::vector<uint8_t> CoreSums::Specials::*side) {
  std::vector<uint8_t> special;
  std::vector<float> first;
  for (const CoreSums::Specials& sequence : sequences) {
    const std::vector<uint8_t>& own = sequence.*side;
    special.insert(special.end(), own.begin(), own.end());
    if (!own.empty()) first.push_back(1);
    first.resize(special.size(), 0);
  }
  if (special.empty()) return {};
  const auto tokens = static_cast<int64_t>(special.size());
  CoreSums::Side made;
  made.special =
      ToDevice(context, ConstTensorView(special.data(), DType::kU8, {tokens}));
  // A device has the mass on the first key from AttentionBand.
  if (context.device().is_cpu()) {
    made.first = ToDevice(
        context, ConstTensorView(first.data(), DType::kF32, {1, tokens, 1}));
  }
  context.Synchronize();  // what is copied is read until then
  return made;
}

}  // namespace

CoreSums::CoreSums(Context& context, Profile& profile, int64_t min_visible)
    : context_(context), profile_(profile), min_visible_(min_visible) {
  const std::vector<std::string>& names = SlotNames();
  for (int m = 0; m < kHeadMetricCount; ++m) {
    const MetricRows& rows = kHeadMetrics[m].rows;
    for (int slot = kFirstSlots.of[m];
         rows.core && slot < kFirstSlots.of[m + 1]; ++slot) {
      columns_.push_back({&profile.Tallies(names[slot]),
                          kCoreColumnMap.of[slot],
                          IsNumber(rows.sum) ? kCoreRows : kCoreSeesFirst,
                          IsOfSelfAttention(rows.sum)});
    }
  }
  for (int k = -1; k <= 1; ++k) {
    const int rows = CoreOffsetColumn(k);
    for (int form = kOffsetMass; form <= kOffsetArgmax; ++form) {
      columns_.push_back({&profile.Tallies(names[OffsetSlot(form, k)]),
                          rows + 1 + form, rows, true});
    }
  }
  for (size_t i = 0; i < profile.heads.size(); ++i) {
    const HeadRef& head = profile.heads[i];
    first_head_.try_emplace({head.kind, head.layer}, i);
  }
}

CoreSums::Tokens CoreSums::Prepare(Context& beside,
                                   std::span<const Specials> sequences) {
  return {static_cast<int64_t>(sequences.size()),
          SideOn(beside, sequences, &Specials::source),
          SideOn(beside, sequences, &Specials::target)};
}

void CoreSums::Begin(Tokens tokens) {
  run_ = {};
  run_.sums = Tensor::Undefined(
      context_, DType::kF64,
      {static_cast<int64_t>(profile_.heads.size()) * tokens.sequences,
       kCoreColumns});
  run_.tokens = std::move(tokens);
}

void CoreSums::BeforeAttention(const AttentionSite& site,
                               const AttentionProblem& problem,
                               AttentionArgs& args) {
  const Tensor& special = QueriesOf(site).special;
  if (!problem.packed || problem.batch != run_.tokens.sequences ||
      args.q.shape[1] != special.size()) {
    throw Error(ErrorCode::kInternal,
                {"profile",
                 "a run of the " + std::to_string(special.size()) +
                     " tokens that were announced",
                 std::to_string(args.q.shape[1]), ""});
  }
  const Shape rows = {1, problem.heads, args.q.shape[1]};
  entropy_ = Temp(context_, DType::kF32, rows);
  max_ = Temp(context_, DType::kF32, rows);
  argmax_ = Temp(context_, DType::kI32, rows);
  distance_ = Temp(context_, DType::kF32, rows);
  first_ = Temp(context_, DType::kF32, rows);
  observation_ = {};
  observation_.statistics = Statistics::kCore;
  observation_.rows.entropy = entropy_.view();
  observation_.rows.max_probability = max_.view();
  observation_.rows.argmax = argmax_.view();
  observation_.rows.distance = distance_.view();
  if (const Tensor& first = KeysOf(site).first; first.size() > 0) {
    observation_.key_features = first.view();
    observation_.rows.feature_mass =
        Reshaped(first_.view(), {1, problem.heads, args.q.shape[1], 1});
  }
  args.observation = &observation_;
}

void CoreSums::AfterAttention(const AttentionSite& site,
                              const AttentionProblem& problem,
                              const AttentionArgs& args) {
  const bool cross = site.kind == AttentionKind::kCross;
  const int64_t heads = problem.heads, rows = args.q.shape[1];
  const size_t first = first_head_.at({site.kind, site.layer});
  CoreRowsProblem core{.mask = problem.mask,
                       .cross = cross,
                       .min_visible = min_visible_,
                       .before = cross ? 0 : 1,
                       .after = cross || problem.mask.after == 0 ? 0 : 1,
                       .longest = problem.query_len};
  const bool has_first = KeysOf(site).first.size() > 0;
  Temp band;
  if (!cross || !has_first) {
    band = Temp(context_, DType::kF32,
                {1, heads, rows, core.before + core.after + 1});
    AttentionBand(context_, problem, args, core.before, core.after, band.view(),
                  has_first ? TensorView() : first_.view());
  }
  const int64_t sequences = run_.tokens.sequences;
  const auto begin = static_cast<int64_t>(first) * sequences;
  CoreRowSums(context_, core,
              {.entropy = entropy_.view(),
               .max_probability = max_.view(),
               .argmax = argmax_.view(),
               .distance = distance_.view(),
               .first = first_.view(),
               .band = band.view(),
               .query_starts = args.query_starts,
               .key_starts = args.key_starts,
               .special = QueriesOf(site).special.view(),
               .sums = Reshaped(
                   Rows(run_.sums.view(), begin, begin + heads * sequences),
                   {sequences, heads, kCoreColumns})});
  run_.parts.push_back({first, heads, cross});
  for (Temp* kept : {&entropy_, &max_, &argmax_, &distance_, &first_}) {
    *kept = Temp();
  }
}

void CoreSums::Add(Context& beside, Done done) {
  if (done.parts.empty()) return;
  const std::vector<double> all = ToVector<double>(beside, done.sums.view());
  const int64_t sequences = done.tokens.sequences;
  for (const Part& part : done.parts) {
    const double* from = all.data() + static_cast<int64_t>(part.first_head) *
                                          sequences * kCoreColumns;
    for (int64_t b = 0; b < sequences; ++b) {
      for (int64_t h = 0; h < part.heads; ++h, from += kCoreColumns) {
        for (const Column& column : columns_) {
          if (part.cross && column.is_of_self_attention) continue;
          (*column.tallies)[part.first_head + static_cast<size_t>(h)].Add(
              from[column.sum], from[column.weight]);
        }
      }
    }
  }
}

}  // namespace headwise
