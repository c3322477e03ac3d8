// Rankings and patching. Doors: include/headwise/rank.h, patch.h.
#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "headwise/api/notices.h"
#include "headwise/api/rank_keeper.h"
#include "headwise/api/state.h"
#include "headwise/api/text_input.h"
#include "headwise/base/fields.h"
#include "headwise/error.h"
#include "headwise/heads/importance/patching.h"
#include "headwise/heads/importance/patching_json.h"
#include "headwise/heads/importance/ranking.h"
#include "headwise/heads/importance/ranking_json.h"
#include "headwise/heads/roles/roles.h"
#include "headwise/heads/similarity/twins.h"

namespace headwise {
namespace {

std::set<HeadRef> WithRoles(const Transformer& model, const Profile& profile) {
  if (profile.model_hash != model.hash()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"profile", "one of " + model.info().name,
                 "one of another model, " + profile.model, ""});
  }
  return HeadsWithRoles(profile);
}

RankOptions OptionsOf(const RankJob& job, const ObjectiveOptions& objective) {
  RankOptions rank;
  rank.criteria = job.by;
  rank.pairs = job.pairs;
  rank.self_repair = job.self_repair;
  rank.least_negative = job.least_negative;
  rank.normalise_layers = job.per_layer;
  rank.objective = objective;
  rank.seed = job.seed;
  rank.progress = Tell(job.on_progress);
  rank.stop = job.stop;
  return rank;
}

// Losses of one device and type do not go on with another's.
std::string PlaceKey(Transformer& model) {
  if (model.context().device().is_cpu()) return "";
  return std::string(", ") + Name(model.type()) + " on a GPU";
}

// Keeps what the ranking has, where that is asked for; holds what an earlier
// one had, where this one is to go on with it.
std::optional<RankKeeper> KeeperFor(Transformer& model, const RankJob& job,
                                    const RankOptions& rank,
                                    std::span<const TextExample> examples) {
  if (!job.partial.file) {
    if (!job.partial.resume) return {};
    throw Error(ErrorCode::kInvalidArgument,
                {"partial", "the file to go on with", "none", ""});
  }
  Transformer::State& state = model.state();
  std::optional<RankKeeper> keeper;
  keeper.emplace(job.partial.file->string(),
                 LossesKey{model.hash(), TextKey(examples),
                           SettingsKey(rank) + PlaceKey(model)},
                 state.is_first() ? job.partial.checkpoint_seconds : 0);
  if (job.partial.resume) keeper->Resume();
  // The first rank will write its file anew.
  if (state.group != nullptr) state.group->Barrier();
  return keeper;
}

// With what is known of heads that look alike.
Ranking RankWithTwins(Transformer::State& state, const JudgedInput& input,
                      RankOptions rank) {
  std::optional<std::set<HeadRef>> twins;
  if (state.is_first()) {
    twins = FindTwins(state.context, state.model(), input.windows,
                      rank.progress, rank.stop);
  }
  if (twins) {
    rank.has_twin = [&](const HeadRef& head) { return twins->contains(head); };
  }
  return RankHeads(state.context, state.model(), input.examples, rank);
}

int32_t FirstToken(const Transformer& model, const std::string& text) {
  const Encoding encoding =
      model.tokenizer().Encode(text, {.add_special_tokens = false});
  if (!encoding.ids.empty()) return encoding.ids[0];
  throw Error(
      ErrorCode::kInvalidArgument,
      {"patch", "answers of at least one token", "\"" + text + "\"", ""});
}

PatchCase CaseOf(const Transformer& model, const PatchText& text) {
  PatchCase one;
  one.prompt = model.Encode(text.prompt).ids;
  if (!text.counterfactual.empty()) {
    one.counterfactual = model.Encode(text.counterfactual).ids;
  }
  one.answer = FirstToken(model, text.answer);
  one.other = FirstToken(model, text.other);
  return one;
}

bool Unequal(const PatchCase& one) {
  return !one.counterfactual.empty() &&
         one.counterfactual.size() != one.prompt.size();
}

// Throws unless there is something to compare.
void RequireCases(std::span<const PatchCase> cases, size_t texts) {
  if (cases.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"patch",
                 "prompts as long as their counterfactuals, with answers that "
                 "begin with different tokens",
                 "none among " + std::to_string(texts), ""});
  }
  if (cases.size() == 1 && cases[0].answer == cases[0].other) {
    throw Error(ErrorCode::kInvalidArgument,
                {"patch", "answers that begin with different tokens",
                 "the same token twice", ""});
  }
}

}  // namespace

Ranking RankHeads(Transformer& model, const TextInput& text,
                  const RankJob& job) {
  const ModelUse use(model);
  RequireWhole(model, "rank");
  CheckFields(job, "rank");
  Transformer::State& state = model.state();
  RankOptions rank = OptionsOf(job, {});
  const JudgedInput input = JudgedInputOf(model, text, job.seed);
  rank.objective = input.objective;
  RequireEnoughText(state.model(), input.examples, rank.criteria);
  std::set<HeadRef> with_role;
  if (job.profile != nullptr) {
    with_role = WithRoles(model, *job.profile);
    rank.has_role = [&](const HeadRef& head) {
      return with_role.contains(head);
    };
  }
  std::optional<RankKeeper> keeper =
      KeeperFor(model, job, rank, input.examples);
  rank.group = state.group;
  if (keeper) {
    rank.kept = &keeper->losses();
    rank.progress = [tell = rank.progress, &keeper](const Progress& progress) {
      if (tell) tell(progress);
      keeper->Tick();
    };
  }
  try {
    Ranking ranking = RankWithTwins(state, input, rank);
    if (keeper && state.is_first()) keeper->Finish();
    return ranking;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled && keeper && state.is_first()) {
      keeper->ThrowInterrupted();
    }
    throw;
  }
}

PatchResult PatchHeads(Transformer& model, std::span<const PatchCase> cases,
                       const PatchJob& job) {
  const ModelUse use(model);
  RequireWhole(model, "patch");
  Transformer::State& state = model.state();
  PatchOptions options;
  options.seed = job.seed;
  options.progress = Tell(job.on_progress);
  options.stop = job.stop;
  return Patch(state.context, state.model(), cases, options);
}

PatchResult PatchHeads(Transformer& model, std::span<const PatchText> texts,
                       const PatchJob& job) {
  const ModelUse use(model);
  std::vector<PatchCase> cases;
  int64_t unequal = 0, ambiguous = 0, longest = 0;
  for (const PatchText& text : texts) {
    PatchCase one = CaseOf(model, text);
    if (texts.size() > 1 && one.answer == one.other) {
      ++ambiguous;
    } else if (texts.size() > 1 && Unequal(one)) {
      ++unequal;
    } else {
      longest = std::max(longest, std::ssize(one.prompt));
      cases.push_back(std::move(one));
    }
  }
  RequireCases(cases, texts.size());
  TellPastContext(model, longest);
  TellUnknownScript(model, texts[0].prompt);
  PatchResult result = PatchHeads(model, cases, job);
  result.unequal = unequal;
  result.ambiguous = ambiguous;
  return result;
}

std::string JsonText(const Ranking& ranking) { return ToJson(ranking).dump(2); }

std::string JsonText(const PatchResult& result) {
  return ToJson(result).dump(2);
}

}  // namespace headwise
