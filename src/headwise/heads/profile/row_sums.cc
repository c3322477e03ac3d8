// Rows, their sums and what the host is asked for, layer by layer. Door:
// row_sums.h.
#include "headwise/heads/profile/row_sums.h"

#include <bit>
#include <string>
#include <utility>

#include "headwise/error.h"
#include "headwise/heads/profile/examples.h"
#include "headwise/heads/profile/gates.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

namespace headwise {

// What is made once a batch for all layers with one mask.
struct RowSums::Site {
  SiteSide side = SiteSide::kSource;
  AttentionMask mask;
  SiteNotes notes;
  RowInputs inputs;
  SemanticSamples samples;
};

RowSums::Batch::Batch() = default;
RowSums::Batch::~Batch() = default;
RowSums::Batch::Batch(Batch&&) noexcept = default;
RowSums::Batch& RowSums::Batch::operator=(Batch&&) noexcept = default;

RowSums::RowSums(Context& context, Profile& profile, ObserverOptions options)
    : context_(context),
      profile_(profile),
      options_(std::move(options)),
      metrics_(options_.prefix, MetricSet::kAll) {
  metrics_.Prepare(profile_);
  if (options_.text && options_.model != nullptr) PrepareSemantic(profile_);
  for (size_t i = 0; i < profile_.heads.size(); ++i) {
    const HeadRef& head = profile_.heads[i];
    first_head_.try_emplace({head.kind, head.layer}, i);
  }
}

RowSums::~RowSums() = default;

std::unique_ptr<RowSums::Site> RowSums::MakeSite(
    Context& beside, std::span<const SequenceNotes> sequences, SiteSide side,
    const AttentionMask& mask) const {
  auto site = std::make_unique<Site>();
  site->side = side;
  site->mask = mask;
  site->notes = MakeSiteNotes(beside, sequences, side, mask,
                              options_.min_visible, MetricSet::kAll);
  site->inputs = RowInputs(beside, site->notes);
  site->notes.MoveTo(beside);
  if (options_.text && options_.model != nullptr && side != SiteSide::kCross) {
    const Stack& stack = side == SiteSide::kTarget ? *options_.model->decoder()
                                                   : options_.model->stack();
    site->samples = DrawSemantic(beside, site->notes, *options_.model, stack);
  }
  return site;
}

RowSums::Batch RowSums::Prepare(Context& beside,
                                std::vector<SequenceNotes> sequences) const {
  Batch batch;
  batch.sequences = std::move(sequences);
  for (const auto& [side, mask] : known_) {
    batch.sites.push_back(MakeSite(beside, batch.sequences, side, mask));
  }
  return batch;
}

void RowSums::Begin(Batch batch) {
  results_.reset();
  run_ = {};
  run_.batch = std::move(batch);
  const auto heads = static_cast<int64_t>(profile_.heads.size());
  run_.tallies = Tensor::Undefined(context_, DType::kF64,
                                   {heads, kHeadSlots, kTallyNumbers});
  run_.histograms =
      Tensor::Undefined(context_, DType::kF64, {heads, kHistogramBuckets});
}

RowSums::Site& RowSums::SiteOf(const AttentionSite& site,
                               const AttentionMask& mask) {
  const SiteSide side = SideOf(site.kind);
  for (const std::unique_ptr<Site>& made : run_.batch.sites) {
    if (made->side == side && made->mask == mask) return *made;
  }
  run_.batch.sites.push_back(
      MakeSite(context_, run_.batch.sequences, side, mask));
  return *run_.batch.sites.back();
}

void RowSums::BeforeAttention(const AttentionSite& site,
                              const AttentionProblem& problem,
                              AttentionArgs& args) {
  const SiteNotes& notes = SiteOf(site, problem.mask).notes;
  if (!problem.packed ||
      args.q.shape[1] != static_cast<int64_t>(notes.rows.size())) {
    throw Error(ErrorCode::kInternal,
                {"profile",
                 "a run of the " + std::to_string(notes.rows.size()) +
                     " tokens that were announced",
                 std::to_string(args.q.shape[1]), ""});
  }
  results_ =
      std::make_unique<SiteResults>(context_, notes, problem.heads, args);
}

// Asks for the tallies of the call.
void RowSums::Sum(const Site& site, const AttentionArgs& args, size_t first,
                  const SinkInputs* sinks) {
  const SiteResults& results = *results_;
  const int64_t heads = results.heads();
  const auto sequences = static_cast<int64_t>(site.notes.sequences.size());
  HeadRowsArgs rows;
  results.Show(rows);
  site.inputs.Show(rows);
  if (sinks != nullptr) sinks->Show(rows);
  rows.query_starts = args.query_starts;
  rows.key_starts = args.key_starts;
  Temp below_ends;
  if (!results.below_ends().empty()) {
    rows.below_end = OnDevice(
        context_,
        View(results.below_ends().data(), {1, heads, results.queries()}),
        below_ends);
  }
  const auto begin = static_cast<int64_t>(first);
  rows.tallies = Rows(run_.tallies.view(), begin, begin + heads);
  rows.histogram_sums = Rows(run_.histograms.view(), begin, begin + heads);
  const int64_t best = sequences * heads * kBestRows;
  if (options_.table != nullptr) {
    best_ = Temp(context_, DType::kI32, {2, best});
    const Shape shape = {sequences, heads, kBestRows};
    rows.best_rows = Reshaped(Rows(best_.view(), 0, 1), shape);
    rows.best_scores = Reshaped(Rows(best_.view(), 1, 2), shape);
    rows.best_scores.type = DType::kF32;
  }
  HeadRowTallies(context_, results.rows_problem(), rows);
}

void RowSums::AfterAttention(const AttentionSite& site,
                             const AttentionProblem& problem,
                             const AttentionArgs& args) {
  AttentionArgs scores = args;
  scores.observation = nullptr;
  const HeadSource source = {problem, scores};
  const Site& here = SiteOf(site, problem.mask);
  const size_t first = first_head_.at({site.kind, site.layer});
  SiteResults& results = *results_;
  results.Complete(context_, problem, scores);
  Sum(here, args, first, nullptr);
  Part& part = run_.parts.emplace_back(Part{&here, first, problem.heads, {}});
  if (!here.notes.cross) {
    part.agreement =
        SemanticAgreement(context_, source, results.entropies(), here.samples);
  }
  // Here the host waits. Sinks of single heads are rare: what was summed
  // without them is summed again.
  if (results.TakeSinks(context_, problem, scores)) {
    const SinkInputs sinks(context_, results);
    Sum(here, args, first, &sinks);
  }
  if (options_.text && args.gates) {
    has_gates_ = true;
    AddGates(context_, args.gates, here.notes, {&profile_, first});
  }
  if (options_.text && options_.table != nullptr) {
    const auto found = ToVector<int32_t>(context_, best_.view());
    const auto half = found.begin() + static_cast<int64_t>(found.size() / 2);
    BestRows best{{found.begin(), half}, {}};
    for (auto bits = half; bits != found.end(); ++bits) {
      best.scores.push_back(std::bit_cast<float>(*bits));
    }
    KeepExamples(context_, source, results, best, *options_.table,
                 {&profile_, first});
  }
  results_.reset();
  best_ = Temp();
}

RowSums::Done RowSums::TakeRun() {
  known_.clear();
  for (const std::unique_ptr<Site>& site : run_.batch.sites) {
    known_.emplace_back(site->side, site->mask);
  }
  return std::exchange(run_, {});
}

void RowSums::Add(Context& beside, const Done& done) {
  if (done.parts.empty()) return;
  const auto tallies = ToVector<double>(beside, done.tallies.view());
  const auto histograms = ToVector<double>(beside, done.histograms.view());
  for (const Part& part : done.parts) {
    for (size_t h = part.first_head;
         h < part.first_head + static_cast<size_t>(part.heads); ++h) {
      metrics_.Add(tallies.data() + h * kHeadSlots * kTallyNumbers, h);
      if (!options_.text || part.site->notes.cross) continue;
      for (int c = 0; c < kHistogramBuckets; ++c) {
        profile_.histograms[h][c] += histograms[h * kHistogramBuckets + c];
      }
    }
    AddSemantic(ToVector<double>(beside, part.agreement.view()),
                part.site->samples, {&profile_, part.first_head});
  }
}

}  // namespace headwise
