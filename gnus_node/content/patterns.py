"""The instruction-like wordings the scrubber looks for: families of bounded patterns over a scan copy.

General families, not sentences: overriding earlier instructions, taking over a role, imitating the system or a tool call, asking for the
hidden prompt, sending data away, addressing the machine behind the reader, dropping all restraint. A *part* of a family starts with a
lead word and is tried only where that word stands and the other words it needs occur somewhere, so ordinary text costs one pass over its
words. Every offline detector of this kind misses most attacks (reference: mediation): findings raise flags and remove lines; nothing is
ever safe *because* nothing was found.
"""

# Word lists and patterns read better unbroken.
# ruff: noqa: E501

from __future__ import annotations

from gnus_node.content.parts import G, Part, S, make_part, words

_VERBS = (
    "ignore ignores ignoring disregard disregards disregarding forget forgetting override overrides overriding overlook bypass bypasses bypassing "
    "dismiss neglect discard abandon suspend countermand disobey violate discount erase unlearn circumvent"
)
_DROP_LEADS = f"{_VERBS} set put stop pay do don never deviate break"
_DROP = (
    f"{_VERBS.replace(' ', '|')}|set{G}aside|put{G}aside|stop{G}following|pay{G}no{G}attention{G}to|"
    f"(?:do{G}not|don{G}t|never){G}(?:follow|obey|comply{G}with)|deviate{G}from|break{G}(?:away|free){G}from"
)
_STRICT = "instructions?|directions|directives?|prompts?|guidelines|commands|orders|rules|programming|restrictions|safeguards"
_ORDERS = (
    f"{_STRICT}|training|protocols?|constraints|limitations|safety|ethics?|ethical|moral|morals|principles|alignment|filters|policies|"
    "parameters|settings|defaults|task|tasks|assignments?|context|conversations?|messages?|text|statements?|content|inputs?|queries|questions?|"
    "sentences?|words|documents?"
)
_ORDER_WORDS = (
    "instruction direction directive prompt guideline command order rule programming restriction safeguard training protocol constraint limitation "
    "safety ethic ethical moral principle alignment filter policies parameter setting default task assignment context conversation message text "
    "statement content input queries question sentence word document everything anything above before previous usual normal standard built"
)
_EARLIER = "previous|previously|prior|above|preceding|earlier|foregoing|former|initial|original|existing|past|below|following|last"
_SPEAK = "say|print|output|answer|respond|reply|write|return|type|report|echo"
_MACHINE = (
    rf"ai|llms?|gpt\w{{0,6}}|gpt{G}\d|chatgpt|chatbots?|(?:ai|virtual|digital){G}assistants?|assistants?|language{G}models?|bots?|"
    rf"(?:automated|screening|analysis|summar\w{{2,8}}){G}(?:\w{{1,16}}{G}){{0,2}}(?:software|systems?|tools?|agents?|models?)"
)
_FREE = (
    "restrictions?|limits|limitations|restraints?|filters?|guidelines|rules|constraints|censorship|boundaries|ethics|morals|"
    rf"(?:ethical|moral|safety|content|legal|built{G}in){G}(?:\w{{1,16}}{G}){{0,2}}(?:guidelines|rules|restrictions|limits|limitations|concerns|"
    "constraints|filters?|boundaries|considerations|standards|codes?|principles)"
)
_FREE_WORDS = (
    "restriction limit limitation restraint filter guideline rule constraint censorship boundaries ethic moral concern consideration standard code "
    "principle"
)

_OVERRIDE = [
    make_part(
        "override",
        _DROP_LEADS,
        rf"""(?:{_DROP}){G}(?:
        (?:(?:all|any|the|your|my|our|these|those|this|that|of|every|each|everything|anything|whatever|in|its|their){G}){{0,4}}
            (?:{_EARLIER}){G}{words(0, 3)}(?:{_ORDERS})\b
        | (?:all|any|every){G}(?:(?:of|the|your|my|other|these|those){G}){{0,3}}{words(0, 1)}(?:{_STRICT})\b
        | (?:(?:all|any|of|each|every|one){G}){{0,3}}your{G}{words(0, 3)}(?:{_STRICT}|protocols?|ethics?|ethical|moral|safety|training|
            constraints|limitations|filters|defaults?|principles|alignment|parameters|settings|policies|usual|normal|standard|built)\b
        | (?:everything|anything|all|whatever|what){G}(?:(?:that|which|of|the|text|words|else){G}){{0,3}}
            (?:above|before|i{G}(?:said|told|wrote)|you{G}(?:were|have{G}been|are){G}told|previously|below)\b
        | (?:(?:the|all|this){G}){{0,2}}(?:{_STRICT}|text|everything|message|prompt){G}(?:(?:that|which|written|given|provided|stated|shown){G}){{0,3}}
            (?:above|before|below|earlier|previously|so{G}far|you{G}(?:were|have{G}been)|i{G}gave)\b
        | (?:the{G})?system{G}(?:{_STRICT}|messages?)\b
        | (?:(?:the|all){G})?(?:above|below|previous|instructions?|rest)(?:{G}of{G}{words(0, 4)}(?:data|text|document|page|input))?
            (?:\s?[,;.:!]\s?|{G})(?:(?:and|but|then|just|instead|only|now|simply|please){G}){{0,3}}(?:{_SPEAK})\b
        )""",
        _ORDER_WORDS + " rest",
    ),
]

_ROLE = [
    make_part(
        "role",
        "from henceforth starting for",
        rf"""(?:from{G}now{G}on|henceforth|starting{G}now|from{G}this{G}(?:point|moment){G}(?:on|forward|onwards?)|
        for{G}the{G}(?:rest|remainder){G}of{G}th(?:is|e){G}(?:chat|conversation|session)){G}
        (?:\w{{1,16}}{G}){{0,3}}?you(?:r|{G}(?:are|will|must|shall|should|act|only|have|can))\b""",
        "you your",
    ),
    make_part(
        "role",
        "you",
        rf"""you{G}are{G}(?:now|no{G}longer){G}(?:\w{{1,16}}{G}){{0,3}}?(?:{_MACHINE}|dan|bound|restricted|limited|unrestricted|uncensored|
        unfiltered|free|jailbroken|evil|developer|root|admin\w{{0,10}}|in{G}(?:\w{{1,16}}{G}){{0,2}}mode)\b""",
        "now longer",
    ),
    make_part(
        "role",
        "you",
        rf"""you{G}(?:have|are{G}(?:free|freed){G}(?:of|from)|operate{G}without|can{G}(?:ignore|do{G}anything)|ha[sd]|will{G}have|
        are{G}not{G}bound{G}by|do{G}not{G}have){G}(?:(?:no|any|all|longer|moral|absolutely|the){G}){{0,3}}(?:{_FREE})\b""",
        _FREE_WORDS,
    ),
    make_part(
        "role",
        "unrestricted uncensored unfiltered jailbroken amoral unethical",
        rf"(?:\w{{6,12}}){G}(?:\w{{1,16}}{G})?(?:{_MACHINE}|mode|persona|version|character)\b",
    ),
    make_part(
        "role",
        "act behave respond answer pretend imagine roleplay role",
        rf"""(?:\w{{3,9}}){G}{words(0, 12)}(?:with(?:out)?{G}(?:any{G}|no{G})|no{G}|free{G}(?:from|of){G}(?:(?:all|any){G})?|
        not{G}bound{G}by{G}(?:any{G})?)(?:{_FREE})\b""",
        _FREE_WORDS,
        "without no free bound",
    ),
    make_part(
        "role",
        "ai assistant chatbot bot model character entity person",
        rf"""(?:\w{{2,9}}){G}{words(0, 6)}(?:without|no|free{G}(?:of|from)|not{G}bound{G}by|unbound{G}by)(?:{G}(?:any|all|the|typical|usual))?{G}
        (?:{_FREE})\b""",
        _FREE_WORDS,
        "without no free bound unbound",
    ),
    make_part("role", "do dan jail jailbreak", rf"(?:do{G}anything{G}now|dan{G}(?:mode|prompt)|jail{G}?break{G}mode)\b"),
    make_part(
        "role",
        "developer debug god admin sudo maintenance unrestricted jailbreak dan opposite",
        rf"(?:\w{{3,12}}){G}mode{G}(?:enabled|activated|output|on|now|you|and|with)\b",
        "mode",
    ),
    make_part(
        "role",
        "your you",
        rf"""(?:your|you{G}have{G}a){G}new{G}(?:\w{{1,16}}{G}){{0,2}}?(?:goal|objective|role|task|identity|persona|instructions?|purpose|mission){G}
        (?:is|are|as)\b""",
        "new",
    ),
    make_part(
        "role",
        "never not don",
        rf"""(?:never|not|don{G}t){G}(?:refuse|break{G}character|say{G}no|decline)\b{G}(?:\w{{1,16}}{G}){{0,6}}
        (?:{_FREE}|unethical|illegal|immoral|request\w?|order\w?|question\w?|character)\b""",
        "refuse break decline say",
    ),
]

_SYSTEM = [
    make_part("system", "<|", r"<\|\s?(?:im )?(?:start|end|system|user|assistant|endoftext|eot|begin)[\w ]{0,16}\|>", raw=True),
    make_part("system", "[inst [/inst <<sys <</sys <start <end", rf"\[/?inst\]|<</?sys>>|<(?:start|end){G}of{G}turn>", raw=True),
    make_part(
        "system",
        "<system <information <admin <instruction <important <sys< <sys> </system </information </admin </instruction <override",
        r"<{1,2}/?(?:system|information|admin|instructions?|important|sys|override|system[ -](?:prompt|message|note|override|instructions?))>",
        raw=True,
    ),
    make_part(
        "system",
        "[system [/system [developer [admin [new",
        r"\[/?(?:system|system (?:message|override|update|note)|developer (?:note|mode|message)|admin (?:note|override|message)|new instructions?)\s?\]",
        raw=True,
    ),
    make_part("system", '"role"', r'"role"\s{0,4}:\s{0,4}"(?:system|developer)"\s{0,4},\s{0,4}"content"\s{0,4}:', raw=True),
    make_part(
        "system",
        "begin beginning end start close",
        rf"\w{{3,9}}{G}(?:of{G})?(?:the{G})?(?:system|initial|hidden|original){G}(?:prompt|instructions?|message)\b",
        "prompt instruction message",
        edge=True,
    ),
    make_part(
        "system",
        "end",
        rf"""end{G}of{G}(?:the{G})?(?:session|conversation|prompt|user{G}input|document|data|context|text)\b[^\w]{{1,12}}
        (?:system|new|now|assistant|user|instruction)\b""",
        "session conversation prompt input document data context text",
    ),
    make_part(
        "system",
        "system admin administrator root developer security critical",
        r"""(?:critical )?(?:system|admin(?:istrator)?|root|developer|security)[ -](?:override|update|notice|alert|notification|directive|
        instruction|command|note) ?(?:\[[^\]\n]{0,40}\] ?)?[:\]]""",
        "override update notice alert notification directive instruction command note",
        edge=True,
    ),
    make_part(
        "system",
        "system",
        rf"""system\s?:[^\w\n]{{0,4}}(?:you|ignore|disregard|forget|override|new|from|disable|enable|focus|the{G}(?:user|assistant)|all|now|stop|
        do|always|never|safety|reset)\b""",
        edge=True,
    ),
    make_part(
        "system",
        "new updated additional revised real actual",
        rf"\w{{3,10}}{G}(?:(?:system|user){G})?(?:instructions?|task|prompt|objective|directives?)(?: begin\w{{0,5}})?(?: here)? ?:",
        "instruction task prompt objective directive",
        edge=True,
    ),
]

_REVEAL = (
    "reveal expose disclose leak recite divulge uncover unveil show print repeat output display dump tell give share state describe explain summarize "
    "summarise translate paraphrase list provide send reproduce quote copy write echo detail outline return what"
)
_HIDDEN = (
    "system|initial|original|hidden|secret|internal|underlying|core|base|central|guiding|confidential|foundational|primary|main|root|developer|"
    "default|starting|operating|operational|governing|fundamental|programmed|master|built"
)
_EXTRACT = [
    make_part(
        "extraction",
        _REVEAL,
        rf"""\w{{3,10}}{G}{words(0, 5)}(?:your|ai{G}?s|assistant{G}?s)(?:{G}own)?{G}(?:(?:exact|full|entire|complete|current|very|ai|verbatim){G}){{0,3}}
        (?:(?:prompts?|instructions|directives|programming|guidelines|rules)\b
        | (?:{_HIDDEN}){G}{words(0, 2)}(?:prompts?|instructions?|directives?|programming|guidelines?|commands?|rules|configuration|message)\b)""",
        "prompt instruction directive programming guideline command rule configuration message",
        "your ai assistant",
    ),
    make_part(
        "extraction",
        _REVEAL,
        rf"""\w{{3,10}}{G}{words(0, 4)}(?:system|hidden|initial|original|developer){G}(?:prompts?|instructions)\b{G}
        (?:verbatim|in{G}full|above|before|that|you|to{G}me|word|in{G}its|and)\b""",
        "prompt instruction",
    ),
    make_part(
        "extraction",
        "repeat print output display echo recite show summarize summarise translate copy write return",
        rf"""\w{{4,10}}{G}{words(0, 3)}(?:everything|all|words|text|sentences?|lines|instructions|content|what){G}{words(0, 4)}
        (?:above|before{G}(?:this|the)|you{G}(?:were|have{G}been){G}(?:given|told)|preceding{G}this)\b""",
        "above before preceding you",
        "everything all word text sentence line instruction content what",
    ),
    make_part(
        "extraction",
        "instruction instructions prompt rules guidelines directives directive command commands",
        rf"""\w{{5,12}}{G}(?:(?:that|which|were|was|are|is|under|by|behind|in){G}){{0,3}}
        (?:you{G}(?:(?:were|are|was|have{G}been|operate|follow|must{G}follow|received|got|run){G})(?:given|told|programmed|built|operating|running|under|
        at{G}the|before|by|here|to{G}follow|following|initially|originally|first)
        | your{G}(?:functionality|responses?|programming|behaviou?r|creation|actions|operation|development))\b""",
        "you your",
    ),
]

_GOODS = (
    rf"passwords?|credentials?|api{S}keys?|secrets?|private{S}keys?|access{S}tokens?|auth\w{{0,12}}{S}tokens?|session{S}(?:cookies?|tokens?)|cookies|"
    rf"ssh{S}keys?|(?:chat|conversation|browsing|message|transaction){S}(?:history|logs?)|(?:this|the|our|whole|entire){S}conversation|iban|"
    rf"bank{S}(?:details|account{S}\w{{1,10}})|credit{S}card\w?|"
    rf"user{S}?s?{S}(?:data|phone|e-?mails?|address|iban|passwords?|messages|files|location|information|contacts|recent)|"
    rf"all{S}(?:\w{{1,16}}{S})?(?:e-?mails|messages|files|contacts|documents|conversations|data)|messages{S}from{S}all|"
    rf"personal{S}(?:data|information)|environment{S}variables|env{S}(?:vars|variables)|money"
)
_PLACE = (
    rf"(?:https?:|www\.|[\w.+-]{{1,40}}+@\w|to{S}(?:the{S})?(?:account{S}[a-z]{{2}}\d|address|url|website|server|attacker|endpoint|external)|"
    r"\b[a-z]{2}\d{10,30})"
)
_GOODS_WORDS = (
    "password credential key secret token cookie history log conversation iban bank credit user email mail message file contact document data "
    "personal variable money"
)
_EXFIL = [
    make_part(
        "exfiltration",
        "send forward post upload transfer email exfiltrate transmit leak submit copy concatenate append attach deliver share",
        rf"\w{{4,12}}{S}{words(0, 6, S)}(?:{_GOODS})\b[^\n]{{0,80}}?{_PLACE}",
        _GOODS_WORDS,
    ),
    make_part(
        "exfiltration",
        "send make transfer wire pay initiate",
        rf"""\w{{3,8}}{S}{words(0, 10, S)}(?:transaction|payment|transfer|money|funds|dollars|usd|eur|bitcoin|\d{{1,9}}){S}{words(0, 6, S)}
        to{S}{words(0, 3, S)}(?:[a-z]{{2}}\d{{10,30}}|0x[0-9a-f]{{20,}}|bc1\w{{20,}})""",
        "to",
    ),
    make_part(
        "exfiltration",
        "change reset update set modify",
        rf"""\w{{3,6}}{S}(?:(?:the|my|their|a){S})?(?:user{S}?s?|password{S}of|recipient{S}of|account)[^\n.]{{0,60}}?\bto{S}(?:be{S}to{S})?
        (?:the{S}account|new{S}password|[a-z]{{2}}\d{{10,30}})""",
        "password recipient account user",
        "to",
    ),
    make_part(
        "exfiltration",
        "![",
        r"!\[[^\]\n]{0,120}\]\(\s?https?://[^)\s]{1,200}[?&=/](?:\{\{?|<|%7b|\$\{|\[)\s?(?:data|secret|conversation|history|prompt|summary|user|"
        r"message|context|info|base64|encoded|your|the|insert)",
        raw=True,
    ),
]

_DO = "ignore|include|say|respond|reply|write|output|add|don|do|always|never|recommend|mention|rate|summari[sz]e|answer|print|rank|score|return|send|approve|first|must|should|please"
_ADDRESS = [
    make_part(
        "address",
        "if when since because as",
        rf"\w{{2,7}}{G}you{G}(?:are|re){G}(?:an?|the){G}(?:\w{{1,16}}{G}){{0,2}}?(?:{_MACHINE})\b[^\n]{{0,60}}?\b(?:{_DO})\b",
        "you",
    ),
    make_part(
        "address",
        "note notice message attention important instruction instructions reminder warning hidden hint memo dear hello hey hi profile",
        rf"""\w{{2,12}}{G}{words(0, 5)}(?:to|for|all){G}(?:(?:you|the|any|all|an?){G}){{0,2}}(?:{_MACHINE})(?:\b ?:|{G}{words(0, 3)}[^\n]{{0,80}}?\b(?:{_DO})\b)""",
        "ai llm gpt chatgpt chatbot assistant model bot automated screening analysis summarizer summarization",
    ),
    make_part("address", "to", rf"to{G}you{G}(?:{_MACHINE})\b"),
    make_part(
        "address",
        "before",
        rf"before{G}you{G}(?:can{G})?(?:solve|do|complete|finish|answer|continue|proceed){G}{words(0, 3)}(?:task|request|question|job){G}{words(0, 9)}"
        rf"(?:you{G}must|please|do|first|need)\b",
        "task request question job",
    ),
    make_part(
        "address",
        "without",
        rf"without{G}(?:asking|telling|informing|notifying|alerting|warning|confirming{G}with|mentioning){G}(?:me|the{G}user|it{G}to{G}the{G}user)\b",
    ),
    make_part(
        "address",
        "do don never",
        rf"""(?:do{G}not|don{G}t|never){G}(?:tell|inform|notify|alert|warn|mention{G}(?:this|it|that|these|any){G}{words(0, 3)}to|
        reveal{G}(?:this|it|that){G}{words(0, 3)}to|let|ask){G}the{G}user\b""",
        "user",
    ),
    make_part(
        "address",
        "strictly instead please must only",
        rf"""\w{{4,8}}{G}{words(0, 2)}(?:adhere{G}to|follow|obey|execute|comply{G}with){G}(?:only{G})?(?:the|this|these|my|exactly){G}
        (?:following|instructions?{G}below|new){G}?(?:instructions?|commands?|directives?|only)?[:.]""",
        "adhere follow obey execute comply",
    ),
    make_part(
        "address",
        "prioritize prioritise obey follow obeying following",
        rf"\w{{4,10}}{G}(?:only{G})?my{G}(?:\w{{1,16}}{G}){{0,3}}?(?:instructions?|commands?|orders|requests?|directives?|wishes|demands|guidance)\b",
        "my",
    ),
    make_part(
        "address",
        "my",
        rf"my{G}(?:instructions|commands|orders|directives|requests){G}(?:\w{{1,16}}{G}){{0,2}}?(?:take|have|override|supersede|are{G}more)\b",
        "instruction command order directive request",
    ),
]

_HIJACK = [
    make_part(
        "hijack",
        "instead now then simply just always only must please and next regardless will",
        rf"""\w{{3,10}}{G}(?:(?:only|just|simply|always|to|exactly|you|must){G}){{0,3}}(?:say|print|output|answer|respond|reply|write|return|type){G}
        (?:(?:only|exactly|just|this|sentence|the|following|phrase|with|word|words|string|is|text|exact|that|everyone|in|all|caps|to|users?){G}){{0,6}}
        i{G}(?:have|ve|am|will|was|hate|love|can)\b""",
        "say print output answer respond reply write return type",
        "i",
    ),
    make_part(
        "hijack",
        "say type print output write respond",
        rf"\w{{3,7}}{G}(?:with{G})?(?<=[\"'])i{G}have{G}been{G}\w{{3,12}}",
        "been",
    ),
    make_part(
        "hijack",
        "no regardless",
        rf"""(?:no{G}matter|regardless{G}of){G}{words(1, 8)}(?:always|only|just|simply|respond|answer|reply|say|output|print){G}
        (?:always|only|just|simply|respond|answer|reply|say|output|print|with)\b""",
        "matter regardless",
        "say print output answer respond reply",
    ),
    make_part(
        "hijack",
        "if when",
        rf"""\w{{2,4}}{G}(?:you{G}re{G}|you{G}are{G}|the{G})?(?:asked|questioned|prompted|user{G}asks){G}{words(0, 12)}(?:simply|only|just|always){G}
        (?:respond|reply|answer|say|report|output|print)\b""",
        "asked questioned prompted asks",
    ),
    make_part(
        "hijack",
        "instead then",
        rf"""\w{{4,7}}(?:{G}of{G}[^\n.]{{0,60}}?)?[,:]?\s(?:(?:only|just|simply|please) )?(?:say|print|output|respond with|reply with|answer with)
        [ :]{{1,2}}["']\w""",
        "say print output respond reply answer",
    ),
]

_TOOLCALL = [
    make_part(
        "tool_call",
        "<tool </tool <function </function <invoke </invoke [tool <|tool <|python <antml </antml",
        r"</?(?:tool[ -]?calls?|function[ -]?calls?|invoke|tool[ -]?use|antml:[\w ]{1,20})(?:\s[^>\n]{0,120})?>|\[tool[ -]?calls?\]|"
        r"<\|(?:tool|python)[\w -]{0,20}\|>",
        raw=True,
    ),
    make_part(
        "tool_call",
        '"name" "tool" "tool_name" "function" "tool name"',
        r'"[\w ]{4,9}"\s{0,4}:\s{0,4}"[\w .:-]{1,60}"\s{0,4},\s{0,4}"(?:arguments|parameters|args|tool input)"\s{0,4}:\s{0,4}[{"]',
        raw=True,
    ),
]

_COMMANDS = [
    make_part("command", "curl wget iwr", r"\w{3,4}\b[^\n|]{1,200}\|\s{0,4}(?:sudo\s)?(?:ba|z|da)?sh\b"),
    make_part("command", "rm powershell nc bash python python3 node", r"(?:rm\s+-(?:rf|fr)|powershell\b[^\n]{0,40}\s-e|nc\s+-\w{0,4}e|bash\s+-[ci]|python\d?\s+-c|node\s+-e)\b"),
    make_part("command", "/dev/tcp/ /etc/passwd /etc/shadow os.system( eval( exec( popen( <script javascript:", r"[^\n]", raw=True),
]  # fmt: skip

PARTS: tuple[Part, ...] = (*_OVERRIDE, *_ROLE, *_SYSTEM, *_EXTRACT, *_EXFIL, *_ADDRESS, *_HIJACK, *_TOOLCALL)
COMMAND_PARTS: tuple[Part, ...] = tuple(_COMMANDS)
"""Commands count only in text that was hidden or encoded: in the open they are what half of all documentation is about."""
