// The flags of caches by role. Door: cache_flags.h.
#include "cache_flags.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "command.h"
#include "headwise/base/atomic_file.h"
#include "headwise/base/byte_size.h"
#include "headwise/cache.h"
#include "headwise/error.h"
#include "headwise/head_ref.h"
#include "headwise/model.h"
#include "headwise/model_info.h"
#include "headwise/profile.h"
#include "headwise/roles.h"
#include "interrupt.h"
#include "open_model.h"
#include "progress_bar.h"

namespace headwise {
namespace {

Profile ProfileFor(const CacheFlags& flags, Transformer& model) {
  if (!flags.profile.empty()) {
    Profile profile = Profile::Load(flags.profile);
    if (profile.model_hash != model.hash()) {
      throw Error(
          ErrorCode::kInvalidArgument,
          {flags.profile,
           "a profile of this model, whose hash is " + model.hash(),
           fmt::format("one of {}, {}", profile.model, profile.model_hash),
           ""});
    }
    return profile;
  }
  if (model.info().encoder_decoder) {
    throw UsageError(
        "--kv-policy roles of an encoder–decoder needs --profile: random "
        "repeats say nothing about it");
  }
  ProgressBar bar;
  ProfileJob job;
  job.on_progress = bar.on_progress();
  job.stop = StopOnInterrupt();
  return MakeProfile(model, {}, job);
}

void ChooseByRoles(const Profile& profile, AttentionKind kind,
                   CacheChoice& choice) {
  for (const FarReader& reader :
       FarReaders(profile, FindRoles(profile), choice.policy.window)) {
    if (reader.head.kind != kind) continue;
    choice.policy.whole.push_back(reader.head);
    choice.why.push_back(
        fmt::format("{} ({})", ToString(reader.head), reader.why));
  }
}

}  // namespace

void RequireCacheFlags(const CacheFlags& flags, const EngineFlags& engine) {
  if (flags.policy == "all") {
    if (flags.sinks || flags.window || !flags.profile.empty() ||
        !flags.out.empty()) {
      throw UsageError(
          "--sinks, --window, --profile and --kv-out need --kv-policy roles or "
          "a file");
    }
    return;
  }
  if (flags.policy != "roles" && !flags.profile.empty()) {
    throw UsageError("--profile needs --kv-policy roles");
  }
  if (engine.device != "cpu") {
    throw UsageError("--kv-policy runs on the CPU; found --device " +
                     engine.device);
  }
}

void AddCacheFlags(CommandLine line, CacheFlags& flags) {
  line.Option(
          "--kv-policy", flags.policy,
          "Keys and values that heads keep: all; roles: heads that retrieve, "
          "induce or read far everything, others sinks and a window; or a "
          "file of --kv-out")
      .ShowDefault();
  line.Option("--sinks", flags.sinks,
              "First tokens that every head keeps (4, or as the file says)")
      .NotNegative();
  line.Option("--window", flags.window,
              "Last tokens that every head keeps (64, or as the file says)")
      .Positive();
  line.Option("--profile", flags.profile,
              "For --kv-policy roles: a profile of the model; without one, "
              "random repeats and needles tell roles");
  line.Option("--kv-out", flags.out, "Write the policy to this file");
}

std::optional<CacheChoice> ChooseCache(const CacheFlags& flags,
                                       Transformer& model) {
  if (flags.policy == "all") return std::nullopt;
  // The heads that have a cache of what was said.
  const bool decodes = model.info().encoder_decoder;
  const AttentionKind kind =
      decodes ? AttentionKind::kDecoder : AttentionKind::kSelf;
  CacheChoice choice;
  for (const LayerInfo& layer :
       decodes ? model.info().decoder_layers : model.info().layers) {
    choice.heads += static_cast<size_t>(layer.heads);
  }
  const bool roles = flags.policy == "roles";
  if (!roles) choice.policy = ReadKvPolicy(flags.policy, model);
  choice.policy.sinks = flags.sinks.value_or(choice.policy.sinks);
  choice.policy.window = flags.window.value_or(choice.policy.window);
  if (roles) {
    ChooseByRoles(ProfileFor(flags, model), kind, choice);
  } else {
    for (const HeadRef& head : choice.policy.whole) {
      choice.why.push_back(ToString(head));
    }
  }
  if (!flags.out.empty()) {
    WriteFileAtomically(flags.out,
                        JsonText(choice.policy, model.hash()) + "\n");
  }
  return choice;
}

std::string ToText(const CacheChoice& choice, const CacheBytes& bytes) {
  const std::string heads =
      choice.why.empty()
          ? "none of the heads keeps everything"
          : fmt::format("{} of {} heads keep everything: {}", choice.why.size(),
                        choice.heads, fmt::join(choice.why, ", "));
  return fmt::format(
      "cache {} instead of {} ({:.1f} % saved), others {} sinks and a window "
      "of {}; {}",
      ByteSize(bytes.kept), ByteSize(bytes.whole), 100 * bytes.saved(),
      choice.policy.sinks, choice.policy.window, heads);
}

Json ToJson(const CacheChoice& choice, const CacheBytes& bytes,
            const std::string& model_hash) {
  return {{"policy", ParseJson(JsonText(choice.policy, model_hash), "policy")},
          {"heads", choice.heads},
          {"bytes", bytes.kept},
          {"whole_bytes", bytes.whole},
          {"saved", bytes.saved()}};
}

}  // namespace headwise
