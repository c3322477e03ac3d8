// Prints what the public headers give, one thing a call, for
// same_numbers_test.py. Usage: api_numbers WHAT MODEL TEXT [OUT]
#include <cstdio>
#include <string>

#include "headwise/compose.h"
#include "headwise/generate.h"
#include "headwise/head_edit.h"
#include "headwise/head_ref.h"
#include "headwise/loss.h"
#include "headwise/model.h"
#include "headwise/profile.h"
#include "headwise/rank.h"
#include "headwise/report.h"
#include "headwise/roles.h"
#include "headwise/show.h"
#include "headwise/similar.h"
#include "headwise/text_input.h"
#include "headwise/train.h"

namespace {

using headwise::Criterion;
using headwise::TextInput;
using headwise::Transformer;

void Print(const std::string& text) { std::printf("%s\n", text.c_str()); }

void PrintInterval(const char* name, const headwise::Interval& one) {
  std::printf("\"%s\": [%.17g, %.17g, %.17g]", name, one.value, one.low,
              one.high);
}

// {"whole": …, "closed": …, "mean": …}
void Losses(Transformer& model, const TextInput& text) {
  const auto heads = headwise::ParseHeads("0.0,1.1", model);
  const auto means = headwise::MeanOutputs(model, text);
  std::printf("{");
  PrintInterval("whole", model.Loss(text).loss);
  std::printf(", ");
  {
    const auto edit = model.Edit({.drop = heads});
    PrintInterval("closed", model.Loss(text).loss);
  }
  std::printf(", ");
  const auto edit = model.Edit({.drop = heads, .means = means});
  PrintInterval("mean", model.Loss(text).loss);
  std::printf("}\n");
}

void Generated(Transformer& model) {
  const auto edit =
      model.Edit({.drop = headwise::ParseHeads("0.0,1.1", model)});
  const auto said =
      Generate(model, "The captain",
               {.max_tokens = 24, .temperature = 0.8, .top_k = 20, .seed = 3});
  std::printf("[");
  for (size_t i = 0; i < said.ids.size(); ++i) {
    std::printf("%s%d", i > 0 ? ", " : "", said.ids[i]);
  }
  std::printf("]\n");
}

// "name size first last sum", a line each.
void Activations(Transformer& model) {
  const auto run = model.Run("The captain looked at the sea.",
                             {.cache = {"layer.*.attention.*", "final"}});
  const auto print = [](const std::string& name, const headwise::Tensor& x) {
    const float* values = x.As<float>();
    double sum = 0;
    for (int64_t i = 0; i < x.size(); ++i) {
      sum += static_cast<double>(values[i]);
    }
    std::printf("%s %d %.17g %.17g %.17g\n", name.c_str(),
                static_cast<int>(x.size()), static_cast<double>(values[0]),
                static_cast<double>(values[x.size() - 1]), sum);
  };
  for (const auto& [name, x] : run.cache) print(name, x);
  print("logits", run.out);
}

void Train(const std::string& config, const std::string& out) {
  headwise::TrainJob job;
  job.file = config;
  job.settings = {"steps=6", "observe_every=0", "out=" + out};
  std::printf("[");
  job.on_step = [](const headwise::TrainStep& step) {
    std::printf("%s%.17g", step.step > 0 ? ", " : "", step.loss);
  };
  headwise::Train(job);
  std::printf("]\n");
}

int Run(const std::string& what, char** words) {
  if (what == "train") return Train(words[2], words[3]), 0;
  Transformer model(words[2]);
  TextInput text = TextInput::Files({words[3]});
  text.tokens = 128;  // as in same_numbers_test.py
  if (what == "profile") Print(JsonText(MakeProfile(model, text)));
  if (what == "roles") {
    const auto profile = MakeProfile(model, text);
    Print(JsonText(profile, headwise::FindRoles(profile)));
  }
  if (what == "rank") {
    Print(JsonText(
        RankHeads(model, text,
                  {.by = {Criterion::kAblationMean, Criterion::kGradient,
                          Criterion::kWeightsOv, Criterion::kWeightsQk},
                   .self_repair = true})));
  }
  if (what == "similar") Print(CompareHeads(model, text).json);
  if (what == "compose") {
    text.tokens = 64;
    Print(JsonText(ComposeHeads(model, text)));
  }
  if (what == "evaluate") Losses(model, text);
  if (what == "generate") Generated(model);
  if (what == "activations") Activations(model);
  if (what == "show") {
    const auto heads = headwise::ParseHeads("0.0,1.1", model);
    Print(DrawAttention(model, "The captain looked at the sea.", heads));
  }
  if (what == "report") {
    Print(MakeReport(model, text, {.skip = {headwise::ReportPart::kImportance}})
              .json);
  }
  return 0;
}

}  // namespace

int main(int count, char** words) try {
  return count < 4 ? 2 : Run(words[1], words);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
