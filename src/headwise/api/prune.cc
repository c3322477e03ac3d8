// Taking heads out. Door: include/headwise/prune.h.
#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "headwise/api/judge.h"
#include "headwise/api/keep.h"
#include "headwise/api/prune_plan.h"
#include "headwise/api/prune_timing.h"
#include "headwise/api/state.h"
#include "headwise/base/fields.h"
#include "headwise/error.h"
#include "headwise/heads/importance/loss_table.h"
#include "headwise/heads/pruning/curve.h"
#include "headwise/heads/pruning/plan.h"
#include "headwise/profile.h"

namespace headwise {
namespace {

int64_t WeightBytes(const std::filesystem::path& folder) {
  int64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") {
      bytes += static_cast<int64_t>(entry.file_size());
    }
  }
  return bytes;
}

void RequireTunable(const PruneJob& job) {
  const bool given = !job.drop.empty() || job.plan;
  if (job.by != Criterion::kGates || given) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"`tune`",
         "`by` gates, which learn along with the weights, and neither "
         "`drop` nor `plan`",
         given ? "heads that are given" : "`by` " + std::string(Name(job.by)),
         "`repair` finetune trains weights after heads left"});
  }
  if (!(job.finetune_rate > 0)) {
    throw Error(ErrorCode::kInvalidArgument,
                {"`finetune_rate`", "a rate above 0, at which weights learn",
                 std::to_string(job.finetune_rate), "leave out `tune`"});
  }
  if (job.means != nullptr) {
    throw Error(ErrorCode::kInvalidArgument,
                {"`means`", "none: they change as weights are tuned",
                 "those of a profile", "fold takes them over the text"});
  }
}

// What cannot be done is said before the work.
void RequirePossibleOf(const Transformer& model, const PruneJob& job) {
  RequirePossible(job);
  if (job.target_speedup && !job.time) {
    throw Error(ErrorCode::kInvalidArgument,
                {"time", "a way to measure speed, for `target_speedup`", "none",
                 "set PruneJob::time"});
  }
  for (const HeadRef& head : job.drop) RequireHead(model, head);
  if (!job.keep) return;
  const Model& of = model.state().model();
  ChooseHeads(of, std::vector<double>(AllHeads(of).size()), ChoiceOf(job));
}

JudgedInput ReadInput(Transformer& model, const TextInput& text,
                      const PruneJob& job) {
  RequireWhole(model, "prune");
  JudgedInput input = JudgedInputOf(model, text, job.seed);
  SplitText(input.examples);
  for (const TextInput& judge : job.judge) RequireOtherText(text, judge);
  RequirePossibleOf(model, job);
  return input;
}

// The names of the text that chooses and of those that judge.
std::vector<std::string> NamesOfTexts(const TextInput& text,
                                      const PruneJob& job) {
  std::vector<TextInput> all = {text};
  all.insert(all.end(), job.judge.begin(), job.judge.end());
  return DomainsOf(all);
}

// The last quarter of the text that chooses, and the texts that only judge.
std::vector<Judge> MakeJudges(Transformer& model, const TextInput& text,
                              const JudgedInput& input,
                              std::span<const JudgedInput> others,
                              const PruneJob& job,
                              const CorpusOptions& options) {
  const std::vector<std::string> names = NamesOfTexts(text, job);
  const size_t own = SplitText(input.examples).judge.size();
  std::vector<Judge> judges;
  judges.emplace_back(model, std::span(input.windows).last(own), names[0],
                      options);
  for (size_t i = 0; i < others.size(); ++i) {
    judges.emplace_back(model, others[i].windows, names[i + 1], options);
  }
  return judges;
}

std::vector<JudgedInput> ReadJudging(Transformer& model, const PruneJob& job) {
  std::vector<JudgedInput> inputs;
  for (const TextInput& text : job.judge) {
    inputs.push_back(JudgedInputOf(model, text, job.seed));
  }
  return inputs;
}

std::string KeyOfTexts(const JudgedInput& input,
                       std::span<const JudgedInput> others) {
  std::string key = TextKey(input.examples);
  for (const JudgedInput& one : others) key += ", " + TextKey(one.examples);
  return key;
}

// What its numbers depend on besides the job's fields.
std::string MoreSettings(const PruneJob& job) {
  const uint64_t means = job.means != nullptr ? job.means->counts.text_key : 0;
  return ClosedKey(job.drop, {}) + std::to_string(means);
}

}  // namespace

void RequirePossible(const PruneJob& job) {
  CheckFields(job, "prune");
  RequireOrder(job.repair);
  const int ways = job.keep.has_value() + !job.drop.empty() +
                   job.plan.has_value() + job.max_loss.has_value() +
                   job.target_speedup.has_value();
  if (ways > 1) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"prune", "one of `keep`, `drop`, `plan`, `max_loss`, `target_speedup`",
         std::to_string(ways) + " of them", "leave out the others"});
  }
  if (job.max_loss) ParseLossLimit(*job.max_loss);
  if (job.tune) RequireTunable(job);
  if (job.by == Criterion::kGates && job.iterative > 1) {
    throw Error(ErrorCode::kInvalidArgument,
                {"`iterative`", "1 with `by` gates, which are learned at once",
                 std::to_string(job.iterative), "leave out `iterative`"});
  }
}

void RequireFolder(const std::filesystem::path& folder, bool replace,
                   const std::filesystem::path& model) {
  RequireNewFolder(folder, replace ? Replace::kAllowed : Replace::kRefused,
                   model);
}

struct HeadPruner::State {
  State(Transformer& of, const TextInput& text, const PruneJob& asked)
      : model(of),
        job(asked),
        input(ReadInput(of, text, job)),
        others(ReadJudging(of, job)),
        kept(KeptFor(of, "prune", job.partial, KeyOfTexts(input, others),
                     SettingsOf(job) + MoreSettings(job))),
        pruner(of, input, job, Pass()) {
    Keeping([&] {
      judges = MakeJudges(of, text, input, others, job, pruner.corpus());
    });
  }
  // What was kept is of no more use, unless something went wrong.
  ~State() {
    if (kept && !failed) kept->Finish();
  }

  PassOptions Pass() {
    PassOptions pass = PassOf(model, job);
    if (kept) pass.kept = &*kept;
    return pass;
  }
  // Calls `work`. When it is stopped, the error says where what it has lies.
  template <typename Work>
  auto Keeping(const Work& work) -> decltype(work()) {
    try {
      return work();
    } catch (const Error& error) {
      failed = true;
      if (error.code() != ErrorCode::kCancelled || !kept) throw;
      kept->ThrowInterrupted();
    }
  }

  PruningCurve Curve(int64_t random_orders);
  PruningPlan Plan();
  PruneOutcome Write(const PruningPlan& plan,
                     const std::filesystem::path& folder, bool replace);

  bool times() const {
    return job.time && job.timing && model.state().is_first();
  }
  const JudgedText& judge() const { return judges[0].text(); }
  PlanWork work() {
    return {model, input, job, pruner, judge(), judges[0].domain()};
  }

  Transformer& model;
  PruneJob job;
  JudgedInput input;
  std::vector<JudgedInput> others;  // of texts that only judge
  std::optional<KeptWork> kept;
  bool failed = false;
  Pruner pruner;
  std::vector<Judge> judges;
};

HeadPruner::HeadPruner(Transformer& model, const TextInput& text,
                       const PruneJob& job) {
  const ModelUse use(model);
  state_ = std::make_unique<State>(model, text, job);
}
HeadPruner::~HeadPruner() = default;
HeadPruner::HeadPruner(HeadPruner&&) noexcept = default;
HeadPruner& HeadPruner::operator=(HeadPruner&&) noexcept = default;

PruningCurve HeadPruner::Curve(int64_t random_orders) {
  const ModelUse use(state_->model);
  return state_->Keeping([&] { return state_->Curve(random_orders); });
}

PruningPlan HeadPruner::Plan() {
  const ModelUse use(state_->model);
  return state_->Keeping([&] { return state_->Plan(); });
}

PruneOutcome HeadPruner::Write(const PruningPlan& plan,
                               const std::filesystem::path& folder,
                               bool replace) {
  const ModelUse use(state_->model);
  return state_->Keeping([&] { return state_->Write(plan, folder, replace); });
}

PruningCurve HeadPruner::State::Curve(int64_t random_orders) {
  const Model& whole = model.state().model();
  if (job.tune) {
    throw Error(ErrorCode::kInvalidArgument,
                {"`tune`", "gates of a frozen model, for a curve of its heads",
                 "weights that learn along", "leave out `tune`"});
  }
  const std::vector<double> scores = ScoreHeads(work(), whole);
  CurveOptions how;
  how.random_orders = random_orders;
  how.choose = ChoiceOf(job);
  how.seed = job.seed;
  PruningCurve curve = MakeCurve(whole, scores, judge(), pruner.means(), how);
  curve.kind = LossOf(whole);
  curve.domain = judges[0].domain();
  if (!times()) return curve;
  // Of the importance order: what a pruned model gains goes by its counts.
  const auto sets = RemovalSets(whole, scores, how.choose);
  for (const CurvePoint& point : curve.orders[0].points) {
    const auto found = std::find_if(
        sets.begin(), sets.end(),
        [&](const auto& set) { return std::ssize(set) == point.removed; });
    const auto smaller = pruner.Unfitted(*found);
    curve.speeds.push_back(
        TimePrefill({model.context(), whole, *smaller}, job.time));
  }
  return curve;
}

PruningPlan HeadPruner::State::Plan() {
  PruningPlan plan = MakePlan(work());
  RequireRemovable(model.state().model(), plan.removed, ChoiceOf(job).empty);
  return plan;
}

PruneOutcome HeadPruner::State::Write(const PruningPlan& plan,
                                      const std::filesystem::path& folder,
                                      bool replace) {
  PruneOutcome outcome;
  if (!model.state().is_first()) return outcome;
  pruner.StopSharing();
  for (Judge& one : judges) one.StopSharing();
  UseWeightsOf(plan, work());
  pruner.Write(plan.removed, folder,
               replace ? Replace::kAllowed : Replace::kRefused, outcome);
  const Model& whole = model.state().model();
  const Checkpoint checkpoint(folder, {}, whole.type());
  const Model& smaller = checkpoint.model();
  for (const Judge& judge : judges) {
    outcome.judged.push_back(judge.Of(smaller));
  }
  ModelJudgement& own = outcome.judged[0];
  own.chose = true;
  outcome.kind = own.kind;
  outcome.sequences = own.sequences;
  outcome.tokens = own.tokens;
  outcome.loss = own.loss;
  if (times()) {
    outcome.timings = TimeBoth({model.context(), whole, smaller}, job.time);
  }
  outcome.weight_bytes[0] = WeightBytes(model.folder());
  outcome.weight_bytes[1] = WeightBytes(folder);
  outcome.cache_bytes[0] = CacheBytesOf(whole);
  outcome.cache_bytes[1] = CacheBytesOf(smaller);
  return outcome;
}

std::string JsonText(const PruningPlan& plan, const Transformer& model) {
  return ToJson(plan, model.state().model()).dump(2);
}

}  // namespace headwise
