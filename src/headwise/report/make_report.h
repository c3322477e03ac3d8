// A whole report of a model on texts: runs every analysis that it can, and says
// of each other one why it is absent.
#pragma once

#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/context.h"
#include "headwise/dist/group.h"
#include "headwise/progress.h"
#include "headwise/tensor.h"
#include "headwise/tokenizer/tokenizer.h"

namespace headwise {

struct ReportOptions {
  std::vector<std::string> texts;  // as TextSource takes them
  std::string profile;  // a file to read instead of profiling; "": profile
  int64_t tokens = 0;   // most to profile; 0: all
  int64_t context = 0;  // tokens of a window; 0: as the model allows
  TokenizerOptions tokenizer;
  DType type = DType::kF32;  // what the model computes in
  // Most tokens for what runs the model once a head (importance, path effects);
  // 0: all.
  int64_t rank_tokens = 2048;
  // Parts to leave out: importance, similarity, composition, content, samples.
  std::vector<std::string> skip;
  // Ranks that share profile, similarity and importance; null: this process
  // alone. The first gets the report, the others null.
  dist::Group* group = nullptr;
  OnProgress progress = {};
  std::stop_token stop = {};
};

// headwise.report/1. A model without a tokenizer is reported from its profile
// alone. Throws Error: as OpenModel, Tokenizer::Load, TextSource and
// Profile::Load; kInvalidArgument for a profile of another model, for
// neither text nor profile, for standard input (the text is read more than
// once) and for an unknown part to skip; kCancelled.
Json MakeReport(Context& context, const std::filesystem::path& model,
                const ReportOptions& options);

}  // namespace headwise
