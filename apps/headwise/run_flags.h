// Flags that commands share which run a model, over text or not.
#pragma once

#include <string>

#include "command_line.h"
#include "engine_flags.h"
#include "flags.h"
#include "headwise/progress.h"
#include "headwise/text_input.h"
#include "text_argument.h"

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
  TextInput input;
  ReadingFlags reading;
};

// --tokens, --context and --bos.
inline void AddInputFlags(CommandLine line, TextFlags& flags) {
  AddFlags(line, flags.input);
  AddReadingFlags(line, flags.reading);
}

// With --text, which it returns, so that a command may require it.
inline Argument AddTextFlags(CommandLine line, TextFlags& flags) {
  AddInputFlags(line, flags);
  return line
      .Option("--text", flags.input.files,
              "Files or folders of text (.gz, .xz, .zst, .jsonl too); - is "
              "standard input. Encoder–decoders: source<TAB>target lines")
      .Several();
}

// As asked for, else in the file of this command and model.
PartialWork KeptBy(PartialWork job, const RunFlags& run, const char* command);

}  // namespace headwise
