// Annotated files as commands take them: paths, or a word for the samples.
#pragma once

#include <utility>

#include "assets.h"
#include "command_line.h"
#include "headwise/profile.h"

namespace headwise {

// The word for the samples of assets/treebank and assets/coref.
inline constexpr const char* kShippedSample = "shipped";

// For commands with flags for material.
inline void AddSampleNote(CommandLine line) {
  line.AddFooter(
      "--conllu shipped and --coref shipped read the samples that come along.");
}

inline WordFiles WithSamples(WordFiles given) {
  if (given.conllu == kShippedSample) given.conllu = Asset("treebank");
  if (given.coref == kShippedSample) given.coref = Asset("coref");
  return given;
}

}  // namespace headwise
