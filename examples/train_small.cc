// Trains a small model and lets it speak. Usage: train_small CONFIG OUT
#include <cstdio>
#include <string>

#include "headwise/generate.h"
#include "headwise/model.h"
#include "headwise/train.h"

int main(int count, char** words) try {
  if (count != 3) return std::puts("usage: train_small CONFIG OUT"), 2;
  headwise::TrainJob job;
  job.file = words[1];
  job.settings = {"steps=20", "observe_every=0",
                  std::string("out=") + words[2]};
  job.force = true;
  job.on_step = [](const headwise::TrainStep& step) {
    if (step.step % 5 == 0) {
      std::printf("step %d loss %.3f\n", static_cast<int>(step.step),
                  step.loss);
    }
  };
  const headwise::TrainOutcome run = headwise::Train(job);
  std::printf("last loss %.3f\n", run.losses.back());
  headwise::Transformer model(run.last);
  std::printf("%s\n", Generate(model, "a", {.max_tokens = 10}).text.c_str());
} catch (const std::exception& error) {
  return std::fprintf(stderr, "%s\n", error.what()), 1;
}
