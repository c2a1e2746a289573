"""The override and extraction families in other languages, as word lists.

One rule for all: a verb of dropping or revealing, then within a few words a noun for instructions, and between or right after them a word
that ties the noun to the reader (your, all, previous, ...). Without the tie ordinary prose about rules would match. Words are written as
scan copies have them: lower case, no accents. Scripts without word gaps are matched as substrings.
"""

# Word lists and patterns read better unbroken.
# ruff: noqa: E501

from __future__ import annotations

from gnus_node.content.parts import Part, make_part, words

_LANGUAGES: tuple[tuple[str, str, str, str], ...] = (
    # (leads: full words), (nouns: patterns), (ties: patterns), (reveal leads)
    (
        "ignoriere ignoriert ignorieren ignorier vergiss vergesse vergessen vernachlassige missachte uberschreibe umgehe verwirf widersetze breche brich lass",
        r"anweisung\w*|instruktion\w*|anleitung\w*|vorgabe\w*|regel\w?|befehl\w*|programmier\w*|einschrankung\w*|richtlinie\w*|sicherheits\w+|protokoll\w*|prompts?|beschrankung\w*|ethi\w+|einstellung\w*|schulung\w*|leitlinie\w*|aufgabe\w*",
        r"dein\w*|euer\w*|eure\w*|ihre\w*|alle\w?|vorherig\w*|bisherig\w*|obig\w*|vorangegangen\w*|fruher\w*|standard\w*|eingebaut\w*",
        "offenbare offenbar zeige zeig verrate nenne enthulle gib teile",
    ),
    (
        "ignore ignorez ignorer oublie oubliez neglige desobeis contourne abandonne abandonnez suspends mets fais defais ecarte laisse outrepasse ecartez",
        r"instructions?|consignes?|directives?|regles?|programmation|parametres?|restrictions?|ethiques?|ordres?|commandes?|protocoles?|prompts?|limites?|garde|lignes|formation|principes|texte",
        r"tes|ton|ta|vos|votre|toutes?|tous|precedente?s?|anterieure?s?|ci|initiales?|integrees?|habituel\w*",
        "revele revelez montre affiche donne dis divulgue explique partage quelle quel decris",
    ),
    (
        "ignora ignore olvida olvide descarta omite anula suspende pausa desestima haz abandona deja desobedece elude pasa desecha",
        r"instruccion\w*|indicacion\w*|reglas?|directri\w+|pautas?|programacion|restriccion\w*|ordenes|orden|limit\w+|protocolos?|etica\w*|comandos?|parametros|principios|entrenamiento|texto",
        r"tus?|sus?|todas?|todos?|anterior\w*|previa\w*|previo\w*|iniciales?|incorporad\w+|habitual\w*|predeterminad\w+",
        "revela muestra dime divulga expon comparte explica describe cual desvela",
    ),
    (
        "ignore ignora esquece esqueca descarta descarte desconsidere desconsidera abandona abandone suspende suspenda coloca coloque anule deixa deixe desobedeca contorne pausa",
        r"instru\w+|regras?|diretri\w+|programacao|restric\w+|ordens|ordem|etica\w*|protocolos?|comandos?|parametros|principios|limita\w+|treinamento|orientac\w+|texto",
        r"tuas?|teus?|suas?|seus?|todas?|todos?|anterior\w*|previas?|padrao|iniciais|incorporad\w+|embutid\w+",
        "revele revela mostra mostre diga divulgue exponha compartilhe explique qual partilha",
    ),
    (
        "ignora ignorate dimentica trascura sospendi abbandona metti tralascia scavalca stacca disattiva elimina aggira lascia",
        r"istruzion\w*|regol\w+|direttiv\w+|programmazion\w*|linee|restrizion\w*|ordin\w+|comand\w+|protocoll\w+|etic\w+|limit\w+|parametri|principi|decisional\w*|testo",
        r"tu[oae]i?|tuoi|vostr\w+|tutt[eio]|precedent\w+|inizial\w+|abitual\w+|predefinit\w+|integrat\w+|sopra",
        "rivela mostra dimmi svela divulga spiega condividi qual esponi",
    ),
    (
        "zanemari zanemarite ignoriraj ignorirajte zaboravi zaboravite odbaci preskoci",
        r"uput\w+|pravil\w+|instrukcij\w+|naredb\w+|smjernic\w+|ogranicenj\w+|upit\w*",
        r"sv[aei]\w{0,2}|tvoj\w*|vas\w*|prethodn\w+|ranij\w+|gornj\w+",
        "otkrij pokazi reci navedi",
    ),
    (
        "negeer vergeet zignoruj zignorujte ignoruj ignorujte zapomnij pomin ignorera glom bortse",
        r"instructies?|regels?|opdrachten|richtlijnen|instrukcj\w+|polece\w+|zasad\w*|pokyn\w+|instrukce|pravidla|instruktion\w*|regler\w*",
        r"alle|je|jouw|uw|vorige|eerdere|bovenstaande|wszystki\w+|poprzedni\w+|swoj\w+|twoj\w+|vsechn\w+|predchozi\w*|svoj\w+|alla|dina|tidigare",
        "onthul toon ujawnij pokaz odhal avsloja",
    ),
    (
        "игнорируи игнорируите проигнорируи забудь забудьте отмени отбрось пренебреги нарушь",
        r"инструкци\w*|указани\w*|правил\w*|команд\w*|ограничени\w*|директив\w*|запрет\w*",
        r"все\w?|всех|свои\w*|твои\w*|ваши\w*|предыдущ\w+|прежни\w+|вышеуказанн\w+",
        "раскрои покажи назови выведи",
    ),
    (
        "unut unutun yoksay",
        r"talimat\w*|kural\w*|komut\w*|yonerge\w*",
        r"tum|butun|onceki|senin",
        "goster acikla",
    ),
)  # fmt: skip
_OWN = r"dein\w*|du|tes|ton|ta|tu[s]?|vos|votre|sus?|tuas?|teus?|suas?|seus?|tu[oae]|tuoi|tvoj\w*|твои\w*|свои\w*|ваш\w*|voce|systeme?|sistema|oculta|opera\w*|senin"

_SUBSTRINGS: tuple[tuple[str, str], ...] = (
    ("忽略 无视 忘记 忽视 不要理会 不理会 無視し 忽略掉", r"\w{2,4}?.{0,12}?(?:之前|以前|上述|上面|所有|全部|你的|您的|先前|前面|以上|以下).{0,8}?(?:指令|指示|说明|規則|规则|提示|命令|限制|内容|对话)"),
    ("以前の 上記の すべての これまでの 前の あなたの 全ての", r"\w{2,5}?.{0,10}?(?:指示|命令|ルール|プロンプト|指令|制約|ガイドライン).{0,6}?(?:無視|忘れ|従わ)"),
    ("이전 위의 모든 기존 당신의", r"\w{2,3}.{0,10}?(?:지시|명령|규칙|프롬프트|지침).{0,8}?(?:무시|잊|따르지)"),
    ("تجاهل انس", r"(?:تجاهل|انس).{0,24}?(?:تعليمات|التعليمات|اوامر|الاوامر|قواعد|القواعد|توجيهات|التوجيهات).{0,12}"),
    ("पिछले सभी अपने", r".{2,5}?.{0,24}?(?:निर्देश|नियम|आदेश).{0,24}?(?:अनदेखा|नज़रअंदाज|भूल|उपेक्षा|अनदेखी)"),
)  # fmt: skip


def _build() -> list[Part]:
    parts: list[Part] = []
    for drop, nouns, ties, reveal in _LANGUAGES:
        tied = rf"(?:{words(0, 4)}(?:{ties})\W{{1,4}}{words(0, 4)}(?:{nouns})|{words(0, 4)}(?:{nouns})\W{{1,4}}{words(0, 2)}(?:{ties}))\b"
        parts.append(make_part("override", drop, rf"\w{{3,16}}\W{{1,4}}{tied}"))
        parts.append(make_part("extraction", reveal, rf"\w{{2,12}}\W{{1,4}}{words(0, 5)}(?:{nouns})\W{{1,4}}{words(0, 5)}(?:{_OWN})\b"))
    parts += [make_part("override", leads, pattern, raw=True) for leads, pattern in _SUBSTRINGS]
    return parts


LANGUAGE_PARTS: tuple[Part, ...] = tuple(_build())
