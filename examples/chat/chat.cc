// Chats with a language model, a message a line:  chat MODEL.etm [MAX_TOKENS]
#include <cstdlib>
#include <iostream>

#include "evoq/language.h"

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::cerr << "usage: chat MODEL.etm [MAX_TOKENS]\n";
    return 2;
  }
  std::string error;
  auto model = evoq::language::Model::Load(argv[1], {}, &error);
  evoq::language::GenerateOptions options;
  options.max_tokens = argc == 3 ? std::atoi(argv[2]) : 512;
  const auto show = [](std::string_view text) {
    std::cout << text << std::flush;
    return std::cout.good();
  };
  std::vector<evoq::language::Message> messages;
  for (std::string line; model && std::getline(std::cin, line);) {
    messages.push_back({"user", line});
    const auto prompt = model->Chat(messages, {}, &error);
    const auto answer = prompt ? model->Generate(*prompt, options, show, &error) : std::nullopt;
    if (!answer) break;
    std::cout << "\n";
    std::cerr << answer->prompt_tokens << " new tokens read, " << answer->tokens.size()
              << " written\n";
    messages.push_back({"assistant", answer->text});
  }
  if (error.empty()) return 0;
  std::cerr << error << "\n";
  return 1;
}
