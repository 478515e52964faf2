// Classifies an image:  classify MODEL.etm IMAGE.jpg PREPROCESS.json
#include <algorithm>
#include <iostream>

#include "evoq/evoq.h"

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: classify MODEL.etm IMAGE.jpg PREPROCESS.json\n";
    return 2;
  }
  std::string error;
  auto session = evoq::Session::Load(argv[1], {}, &error);
  auto image = session ? evoq::LoadImage(argv[2], argv[3], &error) : std::nullopt;
  std::vector<evoq::Array> outputs;
  if (!image || !session->Run({*image}, &outputs, &error)) {
    std::cerr << error << "\n";
    return 3;
  }
  const float* scores = outputs[0].data<float>();
  const auto best = std::max_element(scores, scores + outputs[0].size()) - scores;
  std::cout << "class " << best << ", score " << scores[best] << "\n";
  return 0;
}
