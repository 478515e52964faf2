#!/usr/bin/env python3
"""Chat templates give the text that jinja2 gives, set up as transformers does, for the formats of
the model families that evoq reads; and broken templates give one sentence with the line.

The templates are written here after the formats' descriptions. Skips (77) without jinja2.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

import agree

agree.need("jinja2")
import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

LLAMA2 = """{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}\
{% set system = messages[0]['content'] %}{% else %}{% set rest = messages %}\
{% set system = false %}{% endif %}{% for message in rest %}\
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}\
{{ raise_exception('roles must alternate: ' ~ loop.index0) }}{% endif %}\
{% if loop.index0 == 0 and system != false %}\
{% set content = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + message['content'] %}\
{% else %}{% set content = message['content'] %}{% endif %}\
{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}\
{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}\
{% endif %}{% endfor %}"""
LLAMA3 = """{% set loop_messages = messages %}{% for message in loop_messages %}\
{% set content = '<|start|>' + message['role'] + '<|stop|>\\n\\n' + message['content'] | trim \
+ '<|eot|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}\
{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start|>assistant<|stop|>\\n\\n' }}\
{% endif %}"""
LLAMA31 = """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_first is defined %}
    {%- set tools_first = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "1 Jan 2000" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}

{#- The system's message comes first. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|head|>system<|/head|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Today: " + date_string + "\\n\\n" }}
{%- if tools is not none and not tools_first %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot|>" }}
{%- if tools_first and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first = messages[0]['content']|trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("no first message") }}
    {%- endif %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
    {{- first + "<|eot|>" }}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|head|>' + message['role'] + '<|/head|>\\n\\n' + message['content'] | trim }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("one call at a time") }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '{"name": "' + call.name + '", "parameters": ' }}
        {{- call.arguments | tojson }}
        {{- "}" }}
    {%- else %}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|head|>assistant<|/head|>\\n\\n' }}
{%- endif %}
"""
QWEN2 = """{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}\
{{ '<|im_start|>system\\nBe helpful.<|im_end|>\\n' }}{% endif %}\
{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}\
{% endfor %}\
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
QWEN25 = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'Be helpful.' }}
    {%- endif %}
    {{- "\\n\\n# Tools\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nBe helpful.<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or \
(message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- message.content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
QWEN3 = """{%- set ns = namespace(multi_step=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step and message.role == "user" and message.content is string and \
not(message.content.startswith('<tool_response>') \
and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\\n')\
.split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or reasoning) %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning.strip('\\n') + \
'\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}{{- '\\n' }}{%- endif %}
                {%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
                {{- '<tool_call>' }}{{- tool_call.name }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""
GEMMA = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}\
{{ raise_exception('no system role') }}{% endif %}{% for message in messages %}\
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}\
{{ raise_exception('roles must alternate') }}{% endif %}\
{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}\
{% set role = message['role'] %}{% endif %}\
{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}\
{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}"""
PHI3 = """{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}\
{{'<|system|>\\n' + message['content'] + '<|end|>\\n'}}{% elif message['role'] == 'user' %}\
{{'<|user|>\\n' + message['content'] + '<|end|>\\n'}}{% elif message['role'] == 'assistant' %}\
{{'<|assistant|>\\n' + message['content'] + '<|end|>\\n'}}{% endif %}{% endfor %}\
{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}"""
ZEPHYR = """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\\n'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}
"""
MACROS = """{%- macro shown(text, depth=0, mark="-") -%}
  {%- if text is mapping -%}
    {%- for key, value in text.items() -%}
      {{ mark * depth }}{{ key }}: {{ shown(value, depth + 1) }};
    {%- endfor -%}
  {%- elif text is string -%}
    "{{ text }}"
  {%- else -%}
    {{ text }}
  {%- endif -%}
{%- endmacro -%}
{%- for m in messages if m.role != 'system' -%}
  {{ loop.index }}/{{ loop.length }} {{ loop.revindex0 }} {{ shown(m, mark='+') }}
  {%- if loop.previtem is defined %} after {{ loop.previtem.role|upper }}{% endif %}
  {%- if loop.index > 3 %}{% break %}{% endif %}
{% else -%}
  nothing
{%- endfor %}
{%- set users = messages | selectattr('role', 'equalto', 'user') | list %}
{{ users | length }} {{ messages | map(attribute='role') | join(', ') }}
{{ messages | rejectattr('role', 'in', ['user', 'tool']) | map(attribute='role') | list }}
  {% generation %}{{ (users | last).content | default('none') | replace('o', '0') }}\
{% endgeneration %}
{% set block %}  a {{ 1 }} {% endset %}[{{ block }}]
{{- "x" if users else "y" }}{{ "z" if not users }}{{ [1, 2.5, none, true, 'a\\'b', {'k': [1, 2]}] }}
"""
EXPRESSIONS = """{{ 1 + 2 * 3 - 4 // 3 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} \
{{ 1.0 }}
{{ 'ab' ~ 1 ~ none ~ true }} {{ 'a' in 'cat' }} {{ 3 not in [1, 2] }} {{ 'k' in {'k': 1} }}
{{ 1 == 1.0 }} {{ 'a' < 'b' }} {{ not 0 and 'x' or 'y' }} {{ 'x' * 3 }} {{ [1] + [2] }}
{{ 'héllo wörld'[1:4] }} {{ 'abcdef'[::-2] }} {{ [1,2,3,4][-2:] }} {{ [1,2,3][5:] }} \
{{ 'abc'[-1] }}
{{ 'a,b,,c'.split(',') }} {{ ' a  b c '.split() }} {{ 'a-b-c'.split('-', 1) }} {{ ' x '.lstrip() }}|
{{ 'Mixed Case'.upper() }} {{ 'Mixed'.lower() }} {{ 'mixed case'.title() }} \
{{ 'mIXED'.capitalize() }}
{{ 'banana'.replace('a', 'o') }} {{ 'banana'.find('n') }} {{ 'banana'.count('an') }} \
{{ 'xxaxx'.strip('x') }}
{{ {'a': 1, 'b': [1, {'c': 'd"'}]} | tojson }} {{ {'a': []} | tojson(indent=2) }} \
{{ 'é<>&' | tojson }}
{{ missing }}|{{ missing is defined }} {{ messages is defined }} {{ missing | default('d') }} \
{{ '' | d('e', true) }}
{{ 5 is odd }} {{ 4 is even }} {{ 9 is divisibleby 3 }} {{ none is none }} {{ 'a' is string }} \
{{ 1 is number }}
{{ range(5) | list }} {{ range(2, 10, 3) | list }} {{ [3,1,2] | first }} {{ [3,1,2] | last }} \
{{ 'abc' | length }}
{{ '12' | int + 1 }} {{ '1.5' | float }} {{ 'x' | int(7) }} {{ 3.7 | int }} {{ -3 | abs }} \
{{ 'abc' | reverse }}
{{ {'b': 1, 'a': 2}.items() | map('join', '=') | list }} \
{{ {'b': 1, 'a': 2} | dictsort | map('first') | list }} {{ {'k': 'v'}.get('k') }} \
{{ {'k': 1}.get('z', 2) }}
{{ (0 - 3) is odd }} {{ -4 is even }} \
{{ {'C': 1, 'a': 2, 'b': 3} | dictsort | map('first') | list }}
{{ "one\\n\\nthree" | indent(2) }} {{ "one\\n\\nthree" | indent(3, true, true) }}
{{ "line\\none" | indent(2) }} {{ 'ß'.upper() }} {{ '\\u00e9\\t|' }} {{ "a" "b" }} {{ 'n' }}
{{ 10000000000000000.0 * 10 }} {{ 12345678901234567.0 * 10 }} {{ 0.00001 }} {{ 0.0001 }} \
{{ '2.9' | int }} {{ dict({'a': 1, 'b': 3}, a=2) }} {{ 'a\\x1cb \\u2003c '.split() }} \
{{ ' a b  c '.split(none, 1) }} {{ ' a b '.split(none, 0) }} {{ 'a '.split(none, 1) }}
{% set a, b = 1, 2 %}{{ a + b }} {% for k, v in {'x': 1}.items() %}{{ k }}{{ v }}{% endfor %}
{% if 1 in [1] and (2 > 1) %}yes{% endif %} {{ (1, 2) | join }} {{ [] or 'empty' }} \
{{ loop is defined }}
{%+ if true %} kept{% endif +%}
{# a comment #}
   {% if true %}
indented
   {% endif %}   
tail {{- ' glued' -}}   
end
"""
TEMPLATES = {
    "llama 2": LLAMA2,
    "llama 3": LLAMA3,
    "llama 3.1": LLAMA31,
    "qwen 2": QWEN2,
    "qwen 2.5": QWEN25,
    "qwen 3": QWEN3,
    "gemma": GEMMA,
    "phi 3": PHI3,
    "zephyr": ZEPHYR,
    "macros": MACROS,
    "expressions": EXPRESSIONS,
}
# A template, and what it is refused with.
REFUSED = {
    "{% if x %}": "line 1: a block without endif",
    "a\n{{ x": "line 2: a tag without an end",
    "{{ 1 + }}": "line 1: the end of the tag, expected a value",
    "\n\n{% include 'x' %}": 'line 3: the statement "include"',
    "{{ x | magic }}": "line 1: the filter magic",
    "{{ x is magic }}": "line 1: the test magic",
    "{{ 'a'.magic() }}": "line 1: the method magic",
    "{{ magic() }}": "line 1: magic is undefined, so it cannot be called",
    "{{ nothing.at.all }}": "line 1: nothing is undefined, so it has no 'at'",
    "{{ 1 // 0 }}": "line 1: a division by 0",
    "{{ 'a' + 1 }}": "line 1: str + int: values that have no such operator",
    "{{ raise_exception('no') }}": "line 1: the template says: no",
    "{% for i in range(99999) %}{% if " + "0 + " * 120 + "0 %}{% endif %}{% endfor %}": (
        "line 1: more than 10000000 steps of work"
    ),
    "{{ 'a' * 999999999999 }}": "line 1: a text of 999999999999 times 1 bytes",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}": "line 1: nested deeper than 400 levels",
    "{% set n = namespace(l=[]) %}{% for i in range(500) %}{% set n.l = [n.l] %}{% endfor %}": (
        "line 1: a value nested deeper than 100 levels"
    ),
    "{% set n = namespace(l=[1]) %}{% for i in range(90) %}"
    "{% set n.l = [n.l, n.l] %}{% endfor %}": ("line 1: a value of more than 16777216 bytes"),
    "{% set n = namespace() %}{% set n.n = [n] %}": "line 1: a namespace in a namespace",
    "{{ " + "(" * 5000 + " }}": "line 1: nested deeper than 100 levels",
    "{{ 1" + " + 1" * 5000 + " }}": "line 1: an expression of more than 200 levels",
    "{{ x" + "[0]" * 5000 + " }}": "line 1: an expression of more than 200 levels",
    "{{ 9223372036854775807 + 1 }}": "line 1: a number of more than 64 bits",
}


def chats():
    user, answer = (
        {"role": "user", "content": " Hi <b>\n"},
        {"role": "assistant", "content": "Hello! "},
    )
    system = {"role": "system", "content": 'You are "terse".'}
    call = {"name": "weather", "arguments": {"city": "Zürich", "days": [1, 2.5, None, True]}}
    tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
    thought = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nFine"}
    messages = [
        [user],
        [user, answer, user],
        [system, user, answer, {"role": "user", "content": "日本語 ‍emoji 😀"}],
        [system, user, thought, user, thought],
        [
            user,
            {"role": "assistant", "content": "", "tool_calls": [{"function": call}]},
            {"role": "tool", "content": '{"t": 3}'},
            {"role": "tool", "content": "done"},
            answer,
        ],
        [answer, answer],
        [system],
    ]
    for chat in messages:
        for prompt in (True, False):
            yield {"messages": chat, "add_generation_prompt": prompt}
        yield {"messages": chat, "add_generation_prompt": True, "tools": [tool]}
        yield {"messages": chat, "add_generation_prompt": True, "enable_thinking": False}


def environment():
    class Marks(jinja2.ext.Extension):
        """{% generation %}, which transformers adds."""

        tags = {"generation"}

        def parse(self, parser):
            next(parser.stream)
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return jinja2.nodes.Scope(body, lineno=1)

    def refuse(message):
        raise jinja2.exceptions.TemplateError(message)

    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Marks, loopcontrols]
    )
    env.filters["tojson"] = lambda x, indent=None: json.dumps(x, ensure_ascii=False, indent=indent)
    env.globals["raise_exception"] = refuse
    return env


def render(env, template, variables):
    """The text, or None where the template fails."""
    try:
        return env.from_string(template).render(**variables)
    except (jinja2.exceptions.TemplateError, TypeError):
        return None


def write_model(folder, template):
    tokenizer = {"model": {"type": "WordLevel", "vocab": {"<s>": 0, "</s>": 1}, "unk_token": "<s>"}}
    config = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": template}
    for name, value in (("tokenizer.json", tokenizer), ("tokenizer_config.json", config)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(value, file)


def evoq_render(folder, template, variables):
    """The text, or the error."""
    write_model(folder, template)
    path = os.path.join(folder, "chat.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(variables) + "\n")
    done = subprocess.run(
        [agree.EVOQ, "tokenize", folder, "--chat", path, "--json", path + ".out"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        return None, done.stderr.strip()
    with open(path + ".out", encoding="utf-8") as file:
        return json.load(file)["text"], ""


def main():
    env = environment()
    count = 0
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        for name, template in TEMPLATES.items():
            for variables in chats():
                given = {"bos_token": "<s>", "eos_token": "</s>"} | variables
                theirs = render(env, template, given)
                ours, error = evoq_render(folder, template, variables)
                count += 1
                if ours != theirs:
                    failures.append(name)
                    print(
                        f"{name}: {ascii(variables)[:200]}\n"
                        f"  evoq  {ours!r} {error}\n  peer  {theirs!r}"
                    )
        for template, message in REFUSED.items():
            ours, error = evoq_render(folder, template, {"messages": []})
            count += 1
            if ours is not None or not re.search(": " + re.escape(message), error):
                failures.append(template[:40])
                print(f"{template[:80]}: {ours!r:.80} {error[:300]}, expected {message}")
    print(f"{count} texts, {len(failures)} differ")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
