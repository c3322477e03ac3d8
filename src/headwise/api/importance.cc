// Rankings and patching. Doors: include/headwise/rank.h, patch.h.
#include <algorithm>
#include <set>
#include <string>

#include "headwise/api/keep.h"
#include "headwise/api/notices.h"
#include "headwise/api/state.h"
#include "headwise/api/text_input.h"
#include "headwise/base/fields.h"
#include "headwise/dist/pack.h"
#include "headwise/error.h"
#include "headwise/heads/importance/loss_table.h"
#include "headwise/heads/importance/patching.h"
#include "headwise/heads/importance/patching_json.h"
#include "headwise/heads/importance/ranking.h"
#include "headwise/heads/importance/ranking_json.h"
#include "headwise/heads/roles/roles.h"
#include "headwise/heads/similarity/twins.h"
#include "headwise/similar.h"

namespace headwise {
namespace {

std::set<HeadRef> WithRoles(const Transformer& model, const Profile& profile) {
  if (profile.model_hash != model.hash()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"profile", "one of " + model.info().name,
                 "one of another model, " + profile.model,
                 "headwise profile makes one of this model"});
  }
  return HeadsWithRoles(profile);
}

std::set<HeadRef> TwinsIn(const HeadSimilarity& similarity) {
  std::set<HeadRef> twins;
  for (const HeadPair& pair : similarity.twins) {
    twins.insert(similarity.heads[pair.a]);
    twins.insert(similarity.heads[pair.b]);
  }
  return twins;
}

int32_t FirstToken(const Transformer& model, const std::string& text) {
  const Encoding encoding =
      model.tokenizer().Encode(text, {.add_special_tokens = false});
  if (!encoding.ids.empty()) return encoding.ids[0];
  throw Error(ErrorCode::kInvalidArgument,
              {"patch", "answers of at least one token", "\"" + text + "\"",
               "give each prompt an answer and another one"});
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

std::string KeyOfCases(std::span<const PatchCase> cases) {
  dist::Packer bytes;
  for (const PatchCase& one : cases) {
    bytes.Put(one.prompt);
    bytes.Put(one.counterfactual);
    bytes.Put(one.answer);
    bytes.Put(one.other);
  }
  return KeyOf(bytes.Take());
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
                 "none among " + std::to_string(texts),
                 "change one word of a prompt for another of as many tokens"});
  }
  if (cases.size() == 1 && cases[0].answer == cases[0].other) {
    throw Error(ErrorCode::kInvalidArgument,
                {"patch", "answers that begin with different tokens",
                 "token " + std::to_string(cases[0].answer) + " twice",
                 "choose answers that differ in their first token"});
  }
}

}  // namespace

Ranking RankHeads(Transformer& model, const TextInput& text,
                  const RankJob& job) {
  const ModelUse use(model);
  RequireWhole(model, "rank");
  CheckFields(job, "rank");
  RequireRanking(job.by);
  Transformer::State& state = model.state();
  const JudgedInput input = JudgedInputOf(model, text, job.seed);
  RankOptions rank;
  rank.job = job;
  rank.objective = input.objective;
  RequireEnoughText(state.model(), input.examples, job.by);
  std::set<HeadRef> with_role;
  if (job.profile != nullptr) {
    with_role = WithRoles(model, *job.profile);
    rank.has_role = [&](const HeadRef& head) {
      return with_role.contains(head);
    };
  }
  const auto run = [&](const PassOptions& pass) {
    rank.pass = pass;
    const auto twins =
        job.similarity != nullptr
            ? std::optional(TwinsIn(*job.similarity))
            : FindTwins(state.context, state.model(), input.windows, pass);
    if (twins) {
      rank.has_twin = [&](const HeadRef& head) {
        return twins->contains(head);
      };
    }
    return RankHeads(state.context, state.model(), input.examples, rank);
  };
  return RunKept(model, "rank", job, TextKey(input.examples), "", run);
}

PatchResult PatchHeads(Transformer& model, std::span<const PatchCase> cases,
                       const PatchJob& job) {
  const ModelUse use(model);
  RequireWhole(model, "patch");
  Transformer::State& state = model.state();
  return RunKept(
      model, "patch", job, KeyOfCases(cases), "", [&](const PassOptions& pass) {
        return Patch(state.context, state.model(), cases, job, {.pass = pass});
      });
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
