// What the heads of a model do, what one of them is worth, and what the model
// says without it. Usage: explore MODEL TEXT…
#include <cstdio>

#include "headwise/generate.h"
#include "headwise/model.h"
#include "headwise/profile.h"
#include "headwise/roles.h"
#include "headwise/text_input.h"

int main(int count, char** words) try {
  if (count < 3) return std::puts("usage: explore MODEL TEXT…"), 2;
  headwise::Transformer model(words[1]);
  const auto text = headwise::TextInput::Files({words + 2, words + count});
  const auto profile = headwise::MakeProfile(model, text);
  for (const headwise::HeadRoles& head : headwise::FindRoles(profile)) {
    std::printf(
        "%s %s\n", ToString(head.head).c_str(),
        head.roles.empty() ? headwise::kNoRole : head.roles[0].name.c_str());
  }
  std::printf("loss %.4f\n", model.Loss(text).loss.value);
  const auto closed = model.Edit({.drop = {{.layer = 0, .head = 0}}});
  std::printf("loss without 0.0 %.4f\n", model.Loss(text).loss.value);
  const auto said = Generate(model, "The captain", {.max_tokens = 20});
  std::printf("The captain%s\n", said.text.c_str());
} catch (const std::exception& error) {
  return std::fprintf(stderr, "%s\n", error.what()), 1;
}
