// Writes the model of assets/planted: make_planted TEXT FOLDER.
#include <fmt/core.h>

#include "headwise/error.h"
#include "headwise/model/planted.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: make_planted TEXT FOLDER\n");
    return 2;
  }
  try {
    headwise::WritePlantedModel(argv[1], argv[2]);
  } catch (const headwise::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
  return 0;
}
