// Rows, their sums and what the host is asked for, layer by layer. Door:
// row_sums.h.
#include "headwise/heads/profile/row_sums.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "headwise/error.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/runtime/on_host.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

// How far gates [1, T, H] of a call are open.
void AddGates(Context& context, const ConstTensorView& given,
              const SiteNotes& notes, ProfilePlace place) {
  const HostFloats floats(context, given);
  const ConstTensorView& gates = floats.view();
  std::vector<Tally>& means = place.profile->Tallies("gate");
  std::vector<Tally>& open = place.profile->Tallies("gate.open");
  for (const SiteNotes::Sequence& sequence : notes.sequences) {
    for (int64_t h = 0; h < gates.shape[2]; ++h) {
      double sum = 0, above = 0;
      for (int64_t t = 0; t < sequence.queries; ++t) {
        const float gate =
            gates.As<float>()[(sequence.query_begin + t) * gates.stride[1] +
                              h * gates.stride[2]];
        sum += gate;
        above += gate > 0 ? 1 : 0;
      }
      means[place.first + h].Add(sum, static_cast<double>(sequence.queries));
      open[place.first + h].Add(above, static_cast<double>(sequence.queries));
    }
  }
}

}  // namespace

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
      slots_(options_.prefix, profile) {
  if (options_.text && options_.model != nullptr) PrepareSemantic(profile_);
  for (size_t i = 0; i < profile_.heads.size(); ++i) {
    const HeadRef& head = profile_.heads[i];
    first_head_.try_emplace({head.kind, head.layer}, i);
  }
  if (!is_host()) {
    host_queue_ = std::make_unique<Context>(
        ContextOptions{.threads = 1, .device = context.device()});
  }
}

RowSums::~RowSums() = default;

std::unique_ptr<RowSums::Site> RowSums::MakeSite(
    Context& beside, std::span<const SequenceNotes> sequences, SiteSide side,
    const AttentionMask& mask) const {
  auto site = std::make_unique<Site>();
  site->side = side;
  site->mask = mask;
  site->notes =
      MakeSiteNotes(beside, sequences, side, mask, options_.min_visible);
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
  run_.sinks.resize(profile_.heads.size());
  if (is_host()) LoadTallies();
}

void RowSums::LoadTallies() {
  for (size_t h = 0; h < profile_.heads.size(); ++h) {
    slots_.Load(h, run_.tallies.As<double>() + h * kHeadSlots * kTallyNumbers);
    std::copy(profile_.histograms[h].begin(), profile_.histograms[h].end(),
              run_.histograms.As<double>() + h * kHistogramBuckets);
  }
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
  // The device has all until here to do, while the host looks.
  if (!is_host()) LookInto(*host_queue_, run_);
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
void RowSums::Sum(Context& context, Done& run, OpenCall& call,
                  const SinkInputs* sinks) {
  const Site& site = *call.site;
  const SiteResults& results = *call.results;
  const int64_t heads = results.heads();
  const auto sequences = static_cast<int64_t>(site.notes.sequences.size());
  HeadRowsArgs rows;
  results.Show(rows);
  site.inputs.Show(rows);
  if (sinks != nullptr) sinks->Show(rows);
  rows.query_starts = call.source.args.query_starts;
  rows.key_starts = call.source.args.key_starts;
  Temp below_ends;
  if (!results.below_ends().empty()) {
    rows.below_end = OnDevice(
        context,
        View(results.below_ends().data(), {1, heads, results.queries()}),
        below_ends);
  }
  const auto begin = static_cast<int64_t>(call.first_head);
  rows.tallies = Rows(run.tallies.view(), begin, begin + heads);
  rows.histogram_sums = Rows(run.histograms.view(), begin, begin + heads);
  const int64_t best = sequences * heads * kBestRows;
  if (options_.table != nullptr) {
    call.best = Temp(context, DType::kI32, {2, best});
    const Shape shape = {sequences, heads, kBestRows};
    rows.best_rows = Reshaped(Rows(call.best.view(), 0, 1), shape);
    rows.best_scores = Reshaped(Rows(call.best.view(), 1, 2), shape);
    rows.best_scores.type = DType::kF32;
  }
  HeadRowsProblem problem = results.rows_problem();
  problem.adds = is_host();
  HeadRowTallies(context, problem, rows);
}

void RowSums::AfterAttention(const AttentionSite& site,
                             const AttentionProblem& problem,
                             const AttentionArgs& args) {
  auto call = std::make_unique<OpenCall>();
  call->site = &SiteOf(site, problem.mask);
  call->first_head = first_head_.at({site.kind, site.layer});
  call->source = {problem, args};
  call->results = std::move(results_);
  SiteResults& results = *call->results;
  results.Complete(context_, problem, call->source.args);
  if (!is_host()) Sum(context_, run_, *call, nullptr);
  Part& part = run_.parts.emplace_back(
      Part{call->site, call->first_head, problem.heads, {}});
  if (!call->site->notes.cross) {
    part.agreement = SemanticAgreement(
        context_, call->source, results.entropies(), call->site->samples);
  }
  has_gates_ = has_gates_ || (options_.text && args.gates);
  run_.open = std::move(call);
  if (is_host()) {
    LookInto(context_, run_);
  } else {
    host_queue_->WaitFor(context_.stream());
  }
}

void RowSums::KeepCall(std::shared_ptr<const void> memory) {
  if (run_.open != nullptr) run_.open->memory = std::move(memory);
}

// What the host is asked for of the open call. `beside` waits for the call, and
// here the host does.
void RowSums::LookInto(Context& beside, Done& run) {
  const std::unique_ptr<OpenCall> call = std::move(run.open);
  if (call == nullptr) return;
  const HeadSource& source = call->source;
  const SiteNotes& notes = call->site->notes;
  const ProfilePlace place = {&profile_, call->first_head};
  SiteResults& results = *call->results;
  // Sinks of single heads are rare: a device sums without them, and then again.
  if (results.TakeSinks(beside, source.problem, source.args)) {
    const SinkInputs sinks(beside, results);
    Sum(beside, run, *call, &sinks);
  } else if (is_host()) {
    Sum(beside, run, *call, nullptr);
  }
  if (options_.text && source.args.gates) {
    AddGates(beside, source.args.gates, notes, place);
  }
  if (options_.text && options_.table != nullptr) {
    const auto found = ToVector<int32_t>(beside, call->best.view());
    const auto half = found.begin() + static_cast<int64_t>(found.size() / 2);
    BestRows best{{found.begin(), half}, {}};
    for (auto bits = half; bits != found.end(); ++bits) {
      best.scores.push_back(std::bit_cast<float>(*bits));
    }
    KeepExamples(beside, source, results, best, *options_.table, place);
    CountSinks(results, *options_.table, call->first_head, run.sinks);
  }
  beside.Synchronize();  // what goes now is read until then
}

RowSums::Done RowSums::TakeRun() {
  known_.clear();
  for (const std::unique_ptr<Site>& site : run_.batch.sites) {
    known_.emplace_back(site->side, site->mask);
  }
  return std::exchange(run_, {});
}

void RowSums::Add(Context& beside, Done done) {
  if (done.parts.empty()) return;
  LookInto(beside, done);
  const auto tallies = ToVector<double>(beside, done.tallies.view());
  const auto histograms = ToVector<double>(beside, done.histograms.view());
  for (const Part& part : done.parts) {
    for (size_t h = part.first_head;
         h < part.first_head + static_cast<size_t>(part.heads); ++h) {
      const double* numbers = tallies.data() + h * kHeadSlots * kTallyNumbers;
      is_host() ? slots_.Store(numbers, h) : slots_.Add(numbers, h);
      if (!options_.text || part.site->notes.cross) continue;
      for (int c = 0; c < kHistogramBuckets; ++c) {
        double& sum = profile_.histograms[h][c];
        const double own = histograms[h * kHistogramBuckets + c];
        sum = is_host() ? own : sum + own;
      }
    }
    AddSemantic(ToVector<double>(beside, part.agreement.view()),
                part.site->samples, {&profile_, part.first_head});
  }
  for (size_t h = 0; h < done.sinks.size(); ++h) {
    for (const auto& [token, count] : done.sinks[h]) {
      profile_.sinks[h][token] += count;
    }
  }
}

}  // namespace headwise
