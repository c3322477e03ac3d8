// Claim: what two heads do, one head cannot learn to do, however wide it is:
//   no linear re-parameterisation turns one distribution into two.
// Expectation: a one-head student of a two-head teacher keeps an error above
//   10 × that of a two-head student, at the teacher's width and at twice it.
// Kind: hypothesis (training may fail either student).
#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "headwise/study/support/toy.h"

namespace headwise {
namespace teacher_student_study {
namespace {

constexpr int64_t kWidth = 16;
constexpr int64_t kWords = 10;
constexpr int64_t kBatch = 32;
constexpr int64_t kTested = 512;
// Of the teacher's logits: rows that have a favourite, but not only one.
constexpr float kSharpness = 2;
constexpr int64_t kPoints = 25;  // of a curve

struct Student {
  const char* name;
  int64_t heads;
  int64_t head_dim;
};
constexpr Student kStudents[] = {{"two heads × 8", 2, 8},
                                 {"one head × 16", 1, 16},
                                 {"one head × 32", 1, 32}};

MultiHeadAttention Teacher(uint64_t seed) {
  MultiHeadAttention teacher({.d_model = kWidth, .heads = 2}, 1000 + seed);
  Tensor& w_q = teacher.parameters().w_q;
  for (int64_t i = 0; i < w_q.size(); ++i) w_q.As<float>()[i] *= kSharpness;
  return teacher;
}

ToyBatch Lesson(Context& context, const MultiHeadAttention& teacher,
                int64_t sequences, Rng& rng) {
  ToyBatch batch;
  batch.x = Tensor(DType::kF32, {sequences, kWords, kWidth});
  for (int64_t i = 0; i < batch.x.size(); ++i) {
    batch.x.As<float>()[i] = static_cast<float>(rng.Normal());
  }
  batch.target = teacher.Forward(context, {.x = batch.x.view()});
  return batch;
}

// The share of the teacher's output that the student misses, on fresh words.
double Missed(Context& context, const MultiHeadAttention& student,
              const ToyBatch& test) {
  double power = 0;
  for (int64_t i = 0; i < test.target.size(); ++i) {
    const double t = test.target.As<float>()[i];
    power += t * t / static_cast<double>(test.target.size());
  }
  return ToyError(context, student, test) / power;
}

struct Lessons {
  double missed = 0;
  Series curve;
};

Lessons Teach(Context& context, const Student& shape, uint64_t seed,
              int64_t steps, StudyClock& clock) {
  const MultiHeadAttention teacher = Teacher(seed);
  MultiHeadAttention student(
      {.d_model = kWidth, .heads = shape.heads, .head_dim = shape.head_dim},
      seed);
  Rng fresh(seed, 3);
  const ToyBatch test = Lesson(context, teacher, kTested, fresh);
  Lessons lessons;
  lessons.curve.name = shape.name;
  const int64_t every = std::max<int64_t>(1, steps / kPoints);
  ToyTraining how;
  how.steps = steps;
  how.rate = 0.01;
  how.seed = seed;
  how.on_step = [&](int64_t step, double) {
    if ((step + 1) % every != 0) return;
    lessons.curve.x.push_back(static_cast<double>(step + 1));
    lessons.curve.y.push_back(Missed(context, student, test));
  };
  TrainToy(
      context, student,
      [&](Rng& rng) { return Lesson(context, teacher, kBatch, rng); }, how,
      clock);
  lessons.missed = Missed(context, student, test);
  return lessons;
}

StudyResult Run(Context& context, const StudyRequest& request) {
  StudyResult result;
  result.seeds = StudySeeds(request);
  const int64_t steps = StudySteps(request, 4000, 12000);
  StudyClock clock(request, "teacher-student",
                   static_cast<int64_t>(3 * result.seeds.size()) * steps);
  LinePlot plot{
      "What a student misses of a two-head teacher (share of its "
      "output), seed 1",
      "steps",
      "missed",
      false,
      true,
      {}};
  StudyTable table{"Share of the teacher's output that is missed, fresh words",
                   {"student", "parameters", "missed"},
                   {}};
  const std::vector<std::vector<Lessons>> runs =
      RunCases(context, std::size(kStudents), result.seeds,
               [&](Context& own, size_t which, uint64_t seed) {
                 return Teach(own, kStudents[which], seed, steps, clock);
               });
  std::vector<std::vector<double>> missed;
  for (size_t i = 0; i < std::size(kStudents); ++i) {
    const Student& shape = kStudents[i];
    missed.emplace_back();
    for (const Lessons& lessons : runs[i]) {
      missed.back().push_back(lessons.missed);
    }
    plot.series.push_back(runs[i][0].curve);
    const int64_t parameters = ParameterCount(
        {.d_model = kWidth, .heads = shape.heads, .head_dim = shape.head_dim});
    table.rows.push_back(
        {shape.name, fmt::format("{}", parameters),
         ShowInterval(OverSeeds(missed.back(), kNotNegative))});
    result.Report(fmt::format("{}: missed share", shape.name),
                  OverSeeds(missed.back(), kNotNegative));
  }
  for (int i = 1; i < 3; ++i) {
    std::vector<double> ratios;
    for (size_t s = 0; s < result.seeds.size(); ++s) {
      ratios.push_back(missed[i][s] / missed[0][s]);
    }
    result.AtLeast(
        fmt::format("{} misses, times that of two heads", kStudents[i].name),
        OverSeeds(ratios, kNotNegative), 10);
  }
  result.pictures.push_back(std::move(plot));
  result.tables.push_back(std::move(table));
  return result;
}

}  // namespace
}  // namespace teacher_student_study

const Study kTeacherStudentStudy = {
    .name = "teacher-student",
    .claim = "One head cannot learn what two heads do, however wide it is.",
    .expectation =
        "a one-head student's error stays above 10 × that of a "
        "two-head student",
    .kind = StudyKind::kHypothesis,
    .run = teacher_student_study::Run,
    .trained = true};

}  // namespace headwise
