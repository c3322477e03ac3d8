// Door: problem_flags.h.
#include "problem_flags.h"

#include <algorithm>

#include "command.h"
#include "flags.h"
#include "headwise/base/fields.h"
#include "headwise/base/nearest.h"
#include "headwise/error.h"

namespace headwise {
namespace {

std::string FlagName(std::string field) {
  std::replace(field.begin(), field.end(), '_', '-');
  return "--" + field;
}

}  // namespace

void ProblemFlags::Declare(CommandLine command, const char* ops) {
  line = command;
  command.Option("OPERATOR", op, ops).Required();
  AddFlags(command, config);
  command.Option("--problems", file,
                 "a file of problems, such as those in bench/problems");
}

bool ProblemFlags::Given(const std::string& field) const {
  return line->Given(FlagName(field));
}

std::vector<bench::Config> ProblemFlags::Problems() const {
  const std::vector<std::string> ops = {"attention", "matmul"};
  if (std::find(ops.begin(), ops.end(), op) == ops.end()) {
    throw UsageError("unknown operator \"" + op + "\"; did you mean " +
                     Nearest(op, ops) + "?");
  }
  Json given = FieldsToJson(config);
  for (const std::string& field : FieldNames<bench::Config>()) {
    if (!Given(field)) {
      given.erase(field);
    } else if (!bench::FieldBelongs(field, op)) {
      throw UsageError(FlagName(field) + " says nothing about " + op);
    }
  }
  std::vector<Json> problems(1);
  problems[0] = Json::object();
  if (!file.empty()) problems = bench::ReadProblems(file, op);
  std::vector<bench::Config> configs;
  for (Json& problem : problems) {
    bench::Config one;
    FieldsFromJson(problem, one, file);
    FieldsFromJson(given, one, "flags");
    try {
      bench::Validate(one, op);
    } catch (const Error& error) {
      if (file.empty()) throw UsageError(error.what());
      throw;
    }
    configs.push_back(std::move(one));
  }
  return configs;
}

}  // namespace headwise
