// The headwise program: one table of commands, and what all of them share:
// help, exit codes, errors on stderr, the nearest known word for a mistyped
// one. A command's door is command.h.
#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
#include <vector>

#include "commands.h"
#include "console.h"
#include "failure.h"
#include "headwise/base/nearest.h"
#include "headwise/error.h"
#include "headwise/version.h"
#include "help.h"
#include "process.h"
#include "ranks.h"
#include "renamed_flags.h"

namespace headwise {
namespace {

// In the order of `headwise --help`; commands of one group stand together.
const std::vector<const Command*>& Commands() {
  static const std::vector<const Command*> commands = {
      // Understand
      &kCompareCommand,
      &kStudyCommand,
      &kShowCommand,
      // Train
      &kVocabCommand,
      &kTrainCommand,
      &kGenerateCommand,
      &kFillCommand,
      // Analyse
      &kProfileCommand,
      &kMergeCommand,
      &kRolesCommand,
      &kRankCommand,
      &kPatchCommand,
      &kSimilarCommand,
      &kComposeCommand,
      &kDumpCommand,
      &kEmbedCommand,
      &kClassifyCommand,
      &kReportCommand,
      &kAtlasCommand,
      // Prune
      &kEvaluateCommand,
      &kPruneCommand,
      &kExportCommand,
      // Tools
      &kDemoCommand,
      &kInfoCommand,
      &kTokenizeCommand,
      &kBenchCommand,
      &kBleuCommand,
      &kPlanCommand,
      &kExplainCommand,
  };
  return commands;
}

const char* Title(Group group) {
  switch (group) {
    case Group::kUnderstand:
      return "Understand";
    case Group::kTrain:
      return "Train";
    case Group::kAnalyse:
      return "Analyse";
    case Group::kPrune:
      return "Prune";
    case Group::kTools:
      return "Tools";
  }
  return "";
}

struct Declared {
  const Command* command;
  CLI::App* app;
  std::function<int()> run;
};

std::vector<Declared> Declare(CLI::App& app) {
  std::vector<Declared> all;
  for (const Command* command : Commands()) {
    CLI::App* sub = app.add_subcommand(command->name, command->summary);
    sub->group(Title(command->group));
    sub->footer(std::string("Examples:\n") + command->examples + "\n");
    // Left over rather than refused, so that Unknown() can name the nearest.
    sub->allow_extras();
    all.push_back({command, sub, command->setup(CommandLine(*sub))});
  }
  return all;
}

std::vector<std::string> FlagsOf(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      flags.push_back("--" + name);
    }
  }
  return flags;
}

// "" when every word was understood, else what was not and the nearest known.
std::string Unknown(const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining(false);
  if (extras.empty()) return "";
  const std::string word = extras.front().substr(0, extras.front().find('='));
  if (word.size() > 1 && word[0] == '-') {
    if (const auto now = NewNameOf(app.get_name(), word); !now.empty()) {
      return fmt::format("{} is now {}", word, now);
    }
    return fmt::format("unknown flag {}; did you mean {}?", word,
                       Nearest(word, FlagsOf(app)));
  }
  if (app.get_parent() != nullptr) {
    return fmt::format("unexpected argument \"{}\"", word);
  }
  std::vector<std::string> names;
  for (const Command* command : Commands()) names.push_back(command->name);
  return fmt::format("unknown command \"{}\"; did you mean {}?", word,
                     Nearest(word, names));
}

// "a whole number" for what --help calls INT.
std::string InWords(const std::string& type) {
  if (type == "INT") return "a whole number";
  if (type == "UINT") return "a whole number from 0 on";
  if (type == "FLOAT") return "a number";
  return type;
}

// CLI11's message in the words of the house: expected …; found ….
std::string Message(const CLI::ParseError& error, const CLI::App& app) {
  const std::string text = error.what();
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    // "Could not convert: --flag = word"
    for (const CLI::Option* option : app.get_options()) {
      const std::string start = option->get_name() + " = ";
      const size_t at = text.find(": " + start);
      if (at == std::string::npos) continue;
      const std::string word = text.substr(at + 2 + start.size());
      const bool number =
          word.find_first_not_of("-+0123456789") == std::string::npos;
      return fmt::format("{}: expected {}{}; found {}", option->get_name(),
                         InWords(option->get_type_name()),
                         number ? " of fewer digits" : "", word);
    }
  }
  const size_t twice = text.find(": At Most 1 required");
  if (twice != std::string::npos) {
    return text.substr(0, twice) + ": expected it once; found it again";
  }
  const std::string few = "At least ", got = " required but received ";
  const size_t least = text.find(few), received = text.find(got);
  if (least != std::string::npos && received != std::string::npos) {
    const size_t count = least + few.size();
    return fmt::format("{}expected {} words; found {}", text.substr(0, least),
                       text.substr(count, received - count),
                       text.substr(received + got.size()));
  }
  return text;
}

int Usage(const std::string& message, const CLI::App& app) {
  const std::string name =
      app.get_parent() == nullptr ? "" : app.get_name() + " ";
  WriteStderr("error: {}\nSee headwise {}--help.\n", message, name);
  return kUsage;
}

// stdout is buffered: what a full disk or a closed pipe swallowed shows here.
int FlushStdout(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  WriteStderr("error: [stdout] {}\n", std::strerror(errno));
  return code == kSucceeded ? kFailed : code;
}

// The option that lowers memory when it is lowered.
std::string Lower(const Command& command) {
  if (*command.lower != '\0') return command.lower;
  return command.group == Group::kAnalyse ? "--context, --tokens or --threads"
                                          : "";
}

int Run(const Declared& chosen) {
  try {
    JoinRanks(*chosen.command, *chosen.app);
    return FlushStdout(chosen.run());
  } catch (const UsageError& error) {
    return Usage(WithFlags(error.what(), FlagsOf(*chosen.app)), *chosen.app);
  } catch (const std::exception& error) {
    FlushStdout(kFailed);
    WriteStderr("error: {}\n", FailureText(error, Lower(*chosen.command),
                                           FlagsOf(*chosen.app)));
  }
  return kFailed;
}

int Main(int argc, char** argv) {
  CLI::App app("Multi-head attention: build it, see what each head does.\n");
  app.name("headwise");
  app.formatter(HelpFormatter(std::min(StdoutConsole().width, 100)));
  app.set_version_flag("--version", "headwise " HEADWISE_VERSION_STRING);
  app.footer("headwise COMMAND --help tells more, with examples.\n");
  app.allow_extras();
  // One command a call: `study rank` names a study, not the command rank.
  app.require_subcommand(0, 1);
  const std::vector<Declared> all = Declare(app);
  const Declared* chosen = nullptr;
  auto choose = [&] {
    for (const Declared& one : all) {
      if (one.app->parsed()) chosen = &one;
    }
  };
  try {
    app.parse(argc, argv);
    choose();
  } catch (const CLI::Success& success) {  // --help, --version
    app.exit(success);
    return FlushStdout(kSucceeded);
  } catch (const CLI::ParseError& error) {
    choose();
    const CLI::App& where = chosen != nullptr ? *chosen->app : app;
    const std::string unknown = Unknown(where);
    return Usage(unknown.empty() ? Message(error, where) : unknown, where);
  }
  const CLI::App& where = chosen != nullptr ? *chosen->app : app;
  if (std::string unknown = Unknown(where); !unknown.empty()) {
    return Usage(unknown, where);
  }
  if (chosen == nullptr) {
    WriteStdout("{}", app.help());
    return FlushStdout(kSucceeded);
  }
  return Run(*chosen);
}

}  // namespace
}  // namespace headwise

int main(int argc, char** argv) {
  headwise::PrepareProcess();
  headwise::PrepareRanks();
  return headwise::LeaveRanks(headwise::Main(argc, argv));
}
