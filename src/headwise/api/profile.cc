// Making, merging and reading profiles. Door: include/headwise/profile.h.
#include "headwise/profile.h"

#include <fmt/core.h>

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "headwise/api/keep.h"
#include "headwise/api/notices.h"
#include "headwise/api/state.h"
#include "headwise/api/text_input.h"
#include "headwise/base/fields.h"
#include "headwise/base/nearest.h"
#include "headwise/error.h"
#include "headwise/head_edit.h"
#include "headwise/heads/profile/detector.h"
#include "headwise/heads/profile/profile_json.h"
#include "headwise/heads/profile/profiler.h"
#include "headwise/heads/profile/words/materials.h"
#include "headwise/heads/profile/words/word_materials.h"
#include "headwise/heads/pruning/profile_means.h"
#include "headwise/loss.h"
#include "headwise/model.h"
#include "headwise/model/room.h"
#include "headwise/runtime/text_notices.h"
#include "headwise/text_input.h"

namespace headwise {
namespace {

void RequireTokenizer(const Transformer& model) {
  if (model.has_tokenizer()) return;
  throw Error(ErrorCode::kNotFound,
              {model.folder().string(), "a tokenizer beside the model", "none",
               "without text the random-repeat test needs none"});
}

// What is asked for to be run, read and judged before anything is.
struct Material {
  Material(Transformer& model, const TextInput& text, const ProfileJob& job) {
    if (!text.empty()) RequireOneKind(text);
    for (const std::filesystem::path& path : job.patterns) {
      detectors.push_back(Detector::Load(path));
    }
    if (!text.ids.empty()) {
      windows = WindowsOfIds(model, text, text.context);
      RequireRoom(model.context(), model.state().model(), Longest(windows));
    }
    TellPastContext(model, windows.empty() ? text.context : Longest(windows));
    TellShared(model);
    words.emplace(job.material, model.state().model(),
                  model.state().checkpoint.FindTokenizer(),
                  model.folder().string());
    if (!text.empty() && text.ids.empty()) {
      RequireTokenizer(model);
      source.emplace(SourceOf(text));
      TellUnknownScript(model, *source);
    }
  }

  std::vector<TokenWindow> windows;  // of ids
  std::optional<WordMaterials> words;
  std::optional<TextSource> source;  // of texts and files
  std::vector<Detector> detectors;
};

// Annotated material is short: the first rank's work.
void AddWords(Transformer& model, const WordMaterials& materials,
              const TextInput& text, const ProfileJob& job, Profile& profile) {
  if (materials.empty() || !model.state().is_first()) return;
  WordOptions words;
  words.from = job.first_piece ? FromWord::kFirstPiece : FromWord::kMean;
  words.context = text.context;
  words.progress = job.on_progress;
  words.stop = job.stop;
  materials.AddTo(model.context(), model.state().model(), model.tokenizer(),
                  words, profile);
}

// Over the same text, in windows as long.
void AddMeans(Transformer& model, TextInput text, const ProfileJob& job,
              Profile& profile) {
  if (!job.means) return;
  text.context = profile.settings.context;
  text.tokens = text.tokens.value_or(0);
  LossJob run;
  run.on_progress = job.on_progress;
  run.stop = job.stop;
  profile.mean_outputs =
      ListMeans(*MeanOutputs(model, text, run), model.state().model());
}

Profile Make(Transformer& model, const TextInput& text, const ProfileJob& job,
             Material& material, const PassOptions& pass) {
  Transformer::State& state = model.state();
  ProfileOptions options{job};
  options.context = text.context;
  options.tokens = text.tokens.value_or(0);
  options.detectors = material.detectors;
  options.group = pass.group;
  options.kept = pass.kept;
  Profiler profiler(state.context, state.model(),
                    state.checkpoint.FindTokenizer(), model.info().name,
                    model.hash(), std::move(options));
  profiler.AddProbes();
  if (!material.windows.empty()) {
    profiler.AddWindows(std::move(material.windows));
  } else if (material.source) {
    profiler.AddText(*material.source);
  }
  Profile profile = profiler.Take();
  AddWords(model, *material.words, text, job, profile);
  AddMeans(model, text, job, profile);
  return profile;
}

}  // namespace

Profile MakeProfile(Transformer& model, const TextInput& text,
                    const ProfileJob& job) {
  const ModelUse use(model);
  RequireWhole(model, "profile");
  CheckFields(job, "profile");
  Material material(model, text, job);
  // The text is known by what was read of it (Profiler).
  const std::string read =
      fmt::format(" {} {}", text.context, text.tokens.value_or(0));
  return RunKept(model, "profile", job, "", read, [&](const PassOptions& pass) {
    return Make(model, text, job, material, pass);
  });
}

std::vector<std::string> NoticesOf(
    const Profile& profile, std::span<const std::filesystem::path> patterns) {
  std::vector<std::string> notices;
  for (const std::filesystem::path& path : patterns) {
    const std::string name = Detector::Load(path).name();
    if (profile.metrics.contains("pattern." + name)) continue;
    notices.push_back(
        fmt::format("[pattern {}] expected a query that sees a key of its "
                    "label; found none in the text",
                    name));
  }
  const auto certain = profile.baselines.find(kCertainMentions);
  if (certain == profile.baselines.end() || certain->second.empty()) {
    return notices;
  }
  const auto cases = profile.baselines.find("coreference.nearest");
  notices.push_back(fmt::format(
      "[coreference] expected mentions with other candidates than their "
      "antecedents; found {:.0f} without, which any head would get right; they "
      "do not count, {:.0f} others do",
      certain->second.w,
      cases == profile.baselines.end() ? 0.0 : cases->second.w));
  return notices;
}

Profile MergeProfiles(std::span<const Profile> parts) {
  if (parts.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"parts", "at least one profile", "none",
                 "headwise profile makes them"});
  }
  std::set<uint64_t> texts;
  for (const Profile& part : parts) {
    // 0: none, random repeats alone.
    const uint64_t key = part.counts.text_key;
    if (key == 0 || texts.insert(key).second) continue;
    throw Error(ErrorCode::kInvalidArgument,
                {"parts", "profiles of different texts",
                 "two of the same, of " + part.model,
                 "a text that is counted twice would weigh twice"});
  }
  Profile merged = parts.front();
  for (const Profile& part : parts.subspan(1)) merged.Merge(part);
  return merged;
}

std::vector<double> MetricMeans(const Profile& profile,
                                std::string_view metric) {
  if (!profile.metrics.contains(std::string(metric))) {
    std::vector<std::string> names;
    for (const auto& [name, tallies] : profile.metrics) names.push_back(name);
    throw Error(ErrorCode::kNotFound,
                {"metric", "one that the profile holds", std::string(metric),
                 "did you mean " + Nearest(metric, names) + "?"});
  }
  std::vector<double> means;
  for (size_t h = 0; h < profile.heads.size(); ++h) {
    means.push_back(profile.Get(metric, h).mean);
  }
  return means;
}

std::string JsonText(const Profile& profile) {
  return ProfileJson(profile).dump(2);
}

}  // namespace headwise
