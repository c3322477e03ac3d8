// Flags that commands share which run a model, over text or not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "command_line.h"
#include "engine_flags.h"
#include "headwise/progress.h"
#include "text_reading.h"

namespace headwise {

struct RunFlags {
  std::string model;
  EngineFlags engine;
  bool json = false;
};

// `flags` must outlive the parse.
inline void AddRunFlags(CommandLine line, RunFlags& flags,
                        const char* model = "A model's folder") {
  line.Option("MODEL", flags.model, model).Required();
  AddEngineFlags(line, flags.engine);
  line.Flag("--json", flags.json, "Print JSON");
}

struct TextFlags {
  std::vector<std::string> paths;
  int64_t tokens = 0;
  int64_t context = 0;
  ReadingFlags reading;
};

// Returns --text, so that a command may require it.
inline Argument AddTextFlags(CommandLine line, TextFlags& flags,
                             const char* tokens, const char* context) {
  line.Option("--tokens", flags.tokens, tokens).ShowDefault().NotNegative();
  line.Option("--context", flags.context, context).NotNegative();
  AddReadingFlags(line, flags.reading);
  return line
      .Option("--text", flags.paths,
              "Files or folders of text (.gz, .xz, .zst, .jsonl too); - is "
              "standard input. Encoder–decoders: source<TAB>target lines")
      .Several();
}

// As asked for, else in the file of this command and model.
PartialWork KeptBy(PartialWork job, const RunFlags& run, const char* command);

}  // namespace headwise
