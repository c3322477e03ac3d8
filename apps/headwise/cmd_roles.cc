// headwise roles: what each head does, with its evidence, or "no role".
#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "commands.h"
#include "console.h"
#include "engine_flags.h"
#include "flags.h"
#include "headwise/base/json.h"
#include "headwise/drawing/text.h"
#include "headwise/error.h"
#include "headwise/explain.h"
#include "headwise/model.h"
#include "headwise/profile.h"
#include "headwise/progress.h"
#include "headwise/roles.h"
#include "headwise/text_input.h"
#include "interrupt.h"
#include "open_model.h"
#include "progress_bar.h"
#include "roles_text.h"
#include "run_flags.h"
#include "text_argument.h"
#include "word_materials.h"

namespace headwise {
namespace roles_command {
namespace {

struct Options {
  std::string subject;  // a profile or a model's folder
  std::string model;    // for --confirm of a profile
  TextFlags text = {.input = {.tokens = 0}, .reading = {}};
  ProfileJob profile;
  RoleJob roles;
  ConfirmJob check;
  bool confirm = false;
  bool all = false;
  bool explain = false;
  bool markdown = false;
  EngineFlags engine;
  bool json = false;
};

void CheckUsage(const Options& options, bool is_model) {
  const bool runs =
      !options.text.input.files.empty() || options.profile.material.any();
  if (!is_model && runs) {
    throw UsageError(
        "a profile already holds its text: give a model's folder with --text, "
        "--conllu or --coref");
  }
  if (!is_model && options.confirm && options.model.empty()) {
    throw UsageError("--confirm runs the model: expected --model FOLDER");
  }
}

// Inputs are read and judged before the model runs.
Profile ProfileOf(const Options& options, Transformer& model,
                  const OnProgress& on_progress) {
  if (model.has_tokenizer()) RequireTexts(options.text.input.files);
  ProfileJob job = options.profile;
  job.material = WithSamples(job.material);
  job.on_progress = on_progress;
  job.stop = StopOnInterrupt();
  return MakeProfile(model, options.text.input, job);
}

struct Found {
  Profile profile;
  std::vector<HeadRoles> roles;
};

Found Find(const Options& options, bool is_model) {
  ProgressBar bar;
  ConfirmJob confirm = options.check;
  confirm.on_progress = bar.on_progress();
  confirm.stop = StopOnInterrupt();
  const auto open = [&](const std::string& folder) {
    return OpenTransformer(folder, options.engine, options.text.reading);
  };
  Found found;
  std::optional<Transformer> model;
  if (is_model) {
    model.emplace(open(options.subject));
    found.profile = ProfileOf(options, *model, bar.on_progress());
  } else {
    found.profile = Profile::Load(options.subject);
  }
  found.roles = FindRoles(found.profile, options.roles);
  if (!options.confirm) return found;
  if (!is_model) {
    model.emplace(open(options.model));
    if (model->hash() != found.profile.model_hash) {
      throw Error(
          ErrorCode::kInvalidArgument,
          {"roles", "the model of the profile, " + found.profile.model,
           options.model, "name the folder that the profile was made of"});
    }
  }
  ConfirmRoles(*model, found.roles, confirm);
  return found;
}

bool HasMetric(const Profile& profile, std::string_view prefix) {
  const auto at = profile.metrics.lower_bound(std::string(prefix));
  return at != profile.metrics.end() && at->first.starts_with(prefix);
}

// The material that roles rest on; without text, also which could be judged.
std::string Material(const Profile& profile) {
  std::vector<std::string> material;
  std::vector<std::string> judged = {"positions", "sinks", "copies",
                                     "retrieval"};
  const bool text = profile.counts.tokens > 0;
  if (text) {
    material.push_back(
        fmt::format("{} of text", Counted(profile.counts.tokens, "token")));
  }
  material.emplace_back("random repeats");
  if (HasMetric(profile, "syntactic.")) {
    material.emplace_back("a treebank");
    judged.emplace_back("syntax");
  }
  if (HasMetric(profile, "coreference")) {
    material.emplace_back("coreference chains");
    judged.emplace_back("coreference");
  }
  if (text) return AndList(material);
  return fmt::format(
      "{}: no text was given, so only {} could be judged",
      material.size() == 1 ? "random repeats alone" : AndList(material),
      AndList(judged));
}

void Print(const Profile& profile, const std::vector<HeadRoles>& roles,
           const Options& options) {
  const Console console = StdoutConsole();
  const RoleCounts counts = CountRoles(roles);
  const int64_t with_role = counts.with_function;
  const std::string shapes =
      counts.shape_only == 0
          ? ""
          : fmt::format(" ({} more {} only broad)", counts.shape_only,
                        counts.shape_only == 1 ? "is" : "are");
  WriteStdout("{}\n", Wrap(fmt::format("{}: {} of {} heads {} a role{}, on {}.",
                                       profile.model, with_role, roles.size(),
                                       with_role == 1 ? "has" : "have", shapes,
                                       Material(profile)),
                           console.width));
  WriteDrawn("{}\n", DrawRoleMap(roles, console));
  WriteDrawn("{}", DrawRoles(roles, options.all, console));
  if (const std::string words = DrawWords(profile, console); !words.empty()) {
    WriteDrawn("\n{}", words);
  }
  if (const std::string patterns = DrawPatterns(profile, console);
      !patterns.empty()) {
    WriteDrawn("\n{}", patterns);
  }
  if (!options.all && with_role + counts.shape_only < std::ssize(roles)) {
    WriteStdout("{}",
                Wrap("Heads that are not listed have no role; --all shows "
                     "what came closest.",
                     console.width));
  }
}

Json ToJson(const RoleGlossary& glossary) {
  Json list = Json::array();
  for (const RoleWords& role : glossary.roles) {
    list.push_back({{"role", role.role},
                    {"means", role.means},
                    {"when", role.when},
                    {"material", role.material},
                    {"trap", role.trap}});
  }
  return list;
}

std::string ToText(const RoleGlossary& glossary, const Console& console) {
  std::string out;
  for (const RoleWords& role : glossary.roles) {
    out += Bold(console, role.role) + '\n';
    out += Wrap(Capital(role.means) + ".", console.width, 2);
    out += Wrap(fmt::format("When: {} ({}).", role.when, role.material),
                console.width, 2);
    out += Wrap(fmt::format("Trap: {}.", role.trap), console.width, 2);
  }
  out += Wrap(
      fmt::format("A role that holds only with the sinks left out (first and "
                  "special tokens, and keys that get more than .3 of a head's "
                  "mass) says so, and needs a mean mass of {:.2f} outside "
                  "them. A score passes where its whole 95 % interval is "
                  "past the threshold. Where nothing passes a head has no "
                  "role.",
                  glossary.content_mass),
      console.width);
  return out;
}

int Explain(const Options& options, const RoleGlossary& glossary) {
  if (options.markdown) {
    WriteStdout("{}", MetricsPage());
  } else if (options.json) {
    WriteJson(ToJson(glossary).dump(2));
  } else {
    WriteDrawn("{}", ToText(glossary, StdoutConsole()));
  }
  return kSucceeded;
}

int Run(const Options& options) {
  const RoleGlossary glossary = ExplainRoles(options.roles);
  if (options.explain) return Explain(options, glossary);
  if (options.subject.empty()) {
    throw UsageError("expected a profile or a model's folder");
  }
  std::error_code unknown;
  const bool is_model = std::filesystem::is_directory(options.subject, unknown);
  if (!is_model && !std::filesystem::exists(options.subject, unknown)) {
    throw Error(
        ErrorCode::kNotFound,
        {options.subject, "a profile or a model's folder",
         "nothing of that name", "headwise profile writes MODEL.heads"});
  }
  CheckUsage(options, is_model);
  const auto [profile, roles] = Find(options, is_model);
  Warn(NoticesOf(profile));
  if (options.json) {
    WriteJson(JsonText(profile, roles, options.all));
  } else {
    Print(profile, roles, options);
  }
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("SUBJECT", options->subject,
              "A profile (headwise profile), or a model's folder");
  line.Option("--text", options->text.input.files,
              "With a model: files or folders of text, - for stdin. "
              "Without any, the random-repeat test alone is run")
      .OneWord();
  AddFlags(line, options->profile,
           {"min_visible", "conllu", "coref", "first_piece"});
  AddFlags(line, options->roles);
  AddSampleNote(line);
  AddFlags(line, options->check);
  AddInputFlags(line, options->text);
  line.Flag("--confirm", options->confirm,
            "Switch heads off and see whether what they are for suffers");
  line.Option("--model", options->model,
              "With a profile and --confirm: the model it is of");
  line.Flag("--all", options->all,
            "Show heads without a role too, and what came closest");
  line.Flag("--explain", options->explain,
            "Say what every role means, when a head has it, and its traps");
  line.Flag("--markdown", options->markdown,
            "With --explain: print docs/metrics.md")
      .Needs("--explain");
  AddEngineFlags(line, options->engine);
  AddWeightMemoryFlag(line, options->engine);
  line.Flag("--json", options->json, "Print JSON (docs/roles.schema.json)");
  return [options] { return Run(*options); };
}

}  // namespace
}  // namespace roles_command

const Command kRolesCommand = {
    .name = "roles",
    .group = Group::kAnalyse,
    .summary = "What each head does, with evidence, or that it has no role",
    .examples =
        "  headwise roles minilm.heads\n"
        "  headwise roles models/minimind2-small --confirm\n"
        "  headwise roles models/minilm-l6 --text novels/ --tokens 100000\n"
        "  headwise roles models/minilm-l6 --conllu en_ewt-ud-dev.conllu\n"
        "  headwise roles models/minilm-l6 --conllu shipped --coref shipped\n"
        "  headwise roles minilm.heads --thresholds induction=0.5 --all\n"
        "  headwise roles --explain",
    .setup = roles_command::Setup,
    .lower = "--context or --threads"};

}  // namespace headwise
