"""Secrets that stand in one line beside something that says so: a name and a sign, a header, a URL, a command's option, a sentence.

Every pattern has a `head`, which stays, and a `value`. All are bounded. A rule is tried only on lines that hold one of its needles."""

import re
from dataclasses import dataclass

_QUOTED = (
    r"""(?P<escape>\\{1,6})"[^\n]{0,4096}?(?<!\\)(?=(?P=escape)")|\\{1,6}"[^"\\\n]{0,4096}|"(?:[^"\\\n]|\\.){0,4096}"?|'[^'\n]{0,4096}'?"""
)
VALUE = rf"""(?P<value>{_QUOTED}|[^\s"'\\,;&|<>(){{}}]{{1,4096}})"""
_WORD = rf"""(?P<value>{_QUOTED}|[^\s"'\\|;]{{1,4096}})"""
_NAMES = (
    r"(?:pass(?:word|wd|phrase|wort|code)|kennwort|wachtwoord|mot de passe|contrasena|(?<![a-z])pwd(?!=?/)|(?<![a-z0-9])pw(?=[\"' \t]{0,4}[=:])"
    r"|(?:bind|root|admin|user|db)pw(?=[\"' \t]{0,4}[=:])|(?<!by)(?<![ \t])pass(?=[\"']?[=:])|(?<![a-z])psk(?=[\"' \t]{0,4}[=:])"
    r"|secret|credentials?(?![a-z]*/)|art-api|api[_-]?key|access[_-]?key(?![_-]?id)|private[_-]?key|preshared[_-]?key|dockerconfigjson|"
    r"client[_-]key[_-]data|account[_-]?key|signing[_-]?key|encryption[_-]?key|token(?!s|i[sz]|_?(?:type|count|len|id\b|per|num))|"
    r"auth[_-]?key|\bsignature|\bsas\b|(?<=[?&;])sig(?==))"
)
ASSIGNED = re.compile(
    rf"""(?P<head>{_NAMES}[\w-]{{0,40}}(?:\\{{0,6}}["'`*]{{1,3}}\]?)?[ \t]{{0,40}}(?:=>|:=|={{1,2}}|:)(?:[*`]{{1,3}})?"""
    rf"""[ \t]{{0,40}}`?(?:!(?:vault|secret|unsafe|encrypted|!str|!binary)[ \t]{{1,4}})?){VALUE}""",
    re.IGNORECASE,
)
MAYBE_ASSIGNED = re.compile(rf"""{_NAMES}[\w-]{{0,40}}\\{{0,6}}["'`*]{{0,3}}\]?[ \t]{{0,40}}[=:]""")
"""The same over a line in lower case and without its value: most lines that say `token` assign nothing."""
SIGN_FOLLOWS = re.compile(r"""[\w-]{0,96}\\{0,6}["'`*]{0,3}\]?[ \t]{0,40}[=:]""")
"""What follows wherever a needle stands in such a name, the needle itself with it: quickly told, and mostly not so."""
EXACTLY_PASSWORD = re.compile(
    r"(?:^|[^A-Za-z])(?:password|passwd|passphrase|passwort|kennwort)\\{0,6}[\"'`*]{0,3}\]?[ \t]{0,40}(?:=>|:=|={1,2}|:)[*`]{0,3}[ \t]{0,40}`?$",
    re.IGNORECASE,
)
"""A name that can be nothing but a password's: there digits alone are one too, where elsewhere they are a count."""
LONGEST_PREFIX = 16
"""Characters of a name before its needle: `encryption_` of `encryption_key`."""
LONGEST_NAME = 132
"""Characters from where such a name begins to its sign, at most."""
SAYS = ("pass", "pw", "psk", "sig=", "kennwort", "woord", "secret", "credential", "contrasena", "art-api", "key", "token", "signature", "sas",
         "dockerconfigjson")  # fmt: skip

_APART = r"""(?:[ \t]{1,4}|["'],[ \t]{0,4})"""
"""What parts two words of a command: blanks, or in a list the quotes and the comma."""
_FLAG = re.compile(
    rf"(?P<head>(?<![\w-])--?(?:[\w-]{{0,40}}[-_])?(?:password|passwd|passphrase|pass|[a-z]{{0,8}}(?:storepass|keypass)|requirepass|token|secret|api[-_]?key|wandb[-_]key|"
    rf"(?:secret|access|private)[-_]key){_APART})(?!-){_WORD}",
    re.IGNORECASE,
)
_ENV = re.compile(rf"(?P<head>\b[A-Z][A-Z0-9_]{{0,80}}_(?:KEY|PAT|PASS|PWD|PW|AUTH|CREDS|TOKEN|SECRET)=){VALUE}")
_DOCKER = re.compile(r"""(?P<head>"(?:auth|identitytoken|registrytoken)"[ \t]{0,4}:[ \t]{0,4})(?P<value>"[A-Za-z0-9+/=._-]{8,4096}")""")
_HEADER = re.compile(
    r"""(?P<head>\b(?:proxy-)?authorization\\{0,6}["']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,6}["']?(?:(?:bearer|basic|token|digest|negotiate|apikey|geniekey|"""
    r"""splunk|ssws|apitoken|api-key|sso-key|key|bot|oauth|hawk|aws4-hmac-sha256)[ \t]{1,4})?)"""
    r"""(?P<value>[^\s"'\\,;<>]{1,4096})""",
    re.IGNORECASE,
)
_BEARER = re.compile(r"(?P<head>\b(?:bearer|basic)[ \t]{1,4})(?P<value>[A-Za-z0-9._~+/=-]{16,4096})", re.IGNORECASE)
_URL = re.compile(
    r"""(?P<head>\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@"'<>]{0,128}:)(?!\d{1,5}[/?#])(?P<value>(?:[^\s/@"'<>]|/(?!/)){1,512}"""
    r"""(?:@[^\s/@"'<>?#,;&\[]{1,128}){0,4})(?=@)""",
    re.IGNORECASE,
)
_URL_USER = re.compile(r"""(?P<head>://)(?P<value>[\w~.=-]{20,256})(?=(?::[^\s/@"'<>]{0,64})?@)""")
_URL_OAUTH = re.compile(r"""(?P<head>://)(?P<value>[^\s:/@"'<>]{6,256})(?=:x-oauth-basic@)""", re.IGNORECASE)
_URL_KEY = re.compile(
    r"(?P<head>[?&](?:key|code)=)(?P<value>(?=[^\s&]{0,80}\d)(?=[^\s&]{0,80}[a-z])(?=[^\s&]{0,80}[A-Z])[\w-]{20,400})(?![\w.])"
)
_VENDOR = re.compile(r"(?P<head>wandb[^\n]{0,60}?\b)(?P<value>(?:local-)?[0-9a-f]{40})\b", re.IGNORECASE)
_TWILIO = re.compile(r"(?P<head>twilio[^\n]{0,60}?\b)(?P<value>(?:AC|SK)?[0-9a-f]{32})\b", re.IGNORECASE)
_DISCORD = re.compile(r"(?P<head>discord[^\n]{0,60}?\b)(?P<value>[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,})", re.IGNORECASE)
_SLACK_HOOK = re.compile(r"(?P<head>\bhooks\.slack\.com/)(?P<value>(?:services|workflows|triggers)/[A-Za-z0-9/_-]{10,400})")
_COOKIE = re.compile(r"(?P<head>\b(?:set-)?cookie: )(?P<value>[^\n]{1,4096})", re.IGNORECASE)
_XML = re.compile(
    r"(?P<head><[\w:-]{0,40}(?:password|passwd|secret|token|api_?key|(?:private|access|secret)key)[\w:-]{0,20}(?:[ \t][^<>\n]{0,200})?(?<!/)>)"
    r"(?P<value>[^<\s]{1,4096})(?=<)",
    re.IGNORECASE,
)
_XML_PAIR = re.compile(
    rf"""(?P<head>\b(?:name|key)="[^"\n]{{0,60}}(?:password|passwd|secret|token|api_?key)[^"\n]{{0,40}}"[ \t]{{1,4}}value=){VALUE}""",
    re.IGNORECASE,
)
_XML_NAMED = re.compile(
    r"(?P<head><name>[^<\n]{0,80}(?:password|passwd|secret|token|api[._]?key|access\.key)[^<\n]{0,40}</name>[ \t]{0,20}<value>)"
    r"(?P<value>[^<\s]{1,4096})(?=<)",
    re.IGNORECASE,
)


def _option(commands: str, option: str) -> re.Pattern[str]:
    """The value of an option, of those commands alone: `-p` means something else to most."""
    return re.compile(rf"""(?P<head>\b(?:{commands})\b[^\n|]{{0,300}}?(?<=[\s"'])(?:{option})){_WORD}""")


_SSHPASS = _option("sshpass", rf"-p{_APART}?")
_LOGIN = _option(r"(?:docker|podman|nerdctl|helm|skopeo|buildah|oras|crane)\b[^\n|]{0,60}?\blogin", rf"-p{_APART}?")
_MYSQL = _option("mysql|mysqldump|mysqladmin|mysqlimport|mysqld|mariadb|mariadb-dump", r"-p[ \t]{0,4}")
_BMC = _option("ipmitool|ipmi-[a-z]{2,20}|ipmipower", rf"(?:-P{_APART}?|-[ky]{_APART})(?!\[redacted)")
_BMC_SET = re.compile(
    rf"(?P<head>\bipmitool\b[^\n|]{{0,300}}?\buser[ \t]{{1,4}}set[ \t]{{1,4}}password[ \t]{{1,4}}\d{{1,2}}[ \t]{{1,4}}){_WORD}"
)
_RACADM = _option("racadm|ipmi-[a-z]{2,20}|ipmi(?:power|console)|redfishtool|mongo(?:sh|s|dump|restore)?|sshfs|htpasswd", rf"-p{_APART}")
_HTPASSWD = re.compile(
    rf"(?P<head>\bhtpasswd[ \t](?:-[A-Za-z]{{1,8}}[ \t]{{1,4}}){{0,3}}?"
    rf"(?:-(?=\w{{0,8}}n)\w{{0,8}}b\w{{0,8}}[ \t]{{1,4}}|-\w{{0,8}}b\w{{0,8}}[ \t]{{1,4}}(?:-\w{{1,8}}[ \t]{{1,4}}){{0,3}}[^\s-]\S{{0,200}}[ \t]{{1,4}})"
    rf"[^\s-]\S{{0,80}}[ \t]{{1,4}}){_WORD}"
)
_ZIP = _option("zip|unzip|zipcloak", rf"-P{_APART}?")
_SEVEN = _option("7z[ar]?", r"-p(?!-)")
_NEW_USER = _option("useradd|usermod", rf"-p{_APART}")
_SNMP_USER = _option(r"snmp(?:walk|get|getnext|bulkwalk|bulkget|set|table|status|trap)", rf"-[AXc]{_APART}(?!\[redacted|public\b)")
_CURL_COOKIE = _option("curl", rf"(?:-b|--cookie){_APART}(?=\S{{1,80}}=)")
_REDIS = _option("redis-cli|keydb-cli|valkey-cli", rf"(?:-a|--pass){_APART}")
_LDAP = _option("ldap(?:search|modify|add|whoami|passwd|delete)", rf"-w{_APART}?")
_OPENSSL = _option("openssl", rf"-(?:k|K|pass(?:in|out)?){_APART}(?:pass:)?")
_STORE = _option("mc", rf"alias{_APART}set{_APART}\S{{1,80}}{_APART}\S{{1,200}}{_APART}\S{{1,200}}{_APART}")
_LOGS_IN = _option("wandb|vault|huggingface-cli|hf", rf"login{_APART}(?!-)")
_USER = re.compile(
    r"""(?P<head>\b(?:curl|lftp|smbclient|wget|http)\b[^\n|]{0,300}?(?<=[\s"'])"""
    r"""(?:-[sSkLfgiInNvjJaOR#]{0,8}u|-U|--user|--proxy-user)[ \t=]{0,4}["']{0,2},?[ \t]{0,4}["']?"""
    r"""[^\s:,%"']{1,128}[:,%])(?!//)(?P<value>[^\s"']{1,4096})"""
)
_SET = re.compile(
    r"(?P<head>(?:secret_access_key|api[-_]?key|secret[-_]key)[ \t]{1,4})(?P<value>[A-Za-z0-9+/=_-]{16,4096})(?![\w:=])", re.IGNORECASE
)
_READS_IT = (
    r"(?:password-stdin|passwd|sudo[ \t]-[A-Za-z]{0,4}S|kinit|kadmin|ktutil|cryptsetup|smbpasswd|pdbedit|realm[ \t]join|net[ \t]ads[ \t]join|--with-token|"
    r"vault[ \t]login|ipmitool|gpg\b[^\n]{0,80}--passphrase-fd|openssl\b[^\n]{0,80}stdin|(?:huggingface-cli|hf|wandb|ngc|az|op)[ \t][^\n|]{0,40}\blogin)"
)
"""Programs that read a secret from what is piped into them."""
_ECHO = re.compile(
    rf"""(?P<head>\b(?:echo|printf)[ \t]{{1,4}}(?:-[neE]{{1,3}}[ \t]{{1,4}})?(?:["']?%s(?:\\n)?["']?[ \t]{{1,4}})?){_WORD}"""
    rf"""(?=[ \t]{{0,4}}\|[^\n]{{0,80}}{_READS_IT})"""
)
_HERE = re.compile(rf"(?P<head>(?<!\w){_READS_IT}[^\n]{{0,200}}?<<<[ \t]{{0,4}}){_WORD}")

_MIXED = r"""(?=[^\s"'`]{0,80}\d)(?=[^\s"'`]{0,80}[A-Za-z])"""
_SIGNED = r"""(?=[^\s"'`]{1,80}[!@#$%^&*+~?][^\s"'`.,;:!?])(?=[^\s"'`]{0,80}[A-Za-z])"""
"""A sign within a word, which no word of a sentence has."""
_CALLED_SO = r"(?:password|passwd|passphrase|passcode|pw|pwd|passwort|kennwort|wachtwoord|mot[ \t]de[ \t]passe|contrasena|senha)"
_SAID = re.compile(
    rf"""(?P<head>\b{_CALLED_SO}(?:[ \t]{{1,2}}(?:is|was|ist|lautet))?[ \t]{{1,4}}(?:["'`*]{{0,3}}))(?!\[)"""
    rf"""(?P<value>{_MIXED}[^\s"'`,;:()<>=]{{6,200}})""",
    re.IGNORECASE,
)
_IS = r"(?:is|was|are|be|remains|becomes|ist|war|lautet|heißt|heisst|est|es|era|é|è)"
_IS_UNSPACED = "[是为為는은は]"
_SAID_OF = re.compile(
    rf"""(?P<head>(?<![A-Za-z0-9_]){_CALLED_SO}(?:[ \t]{{1,2}}[\w./@'’()-]{{1,40}}){{0,8}}?(?:[ \t]{{1,2}}{_IS}|[ \t]{{0,2}}{_IS_UNSPACED})"""
    rf"""(?:[ \t]{{1,2}}(?:now|still|currently|again|jetzt|noch|nun)|:)?"""
    rf"""(?:[ \t]{{1,4}}|(?<=[是为為는은は])[ \t]{{0,4}})["'`*]{{0,3}})(?!\[)(?P<value>(?:{_MIXED}|{_SIGNED})[^\s"'`,;:()<>=]{{6,200}})""",
    re.IGNORECASE,
)
"""A sentence that says of what it is the password: `the password on that node is …`, `das Passwort von gpu-017 lautet …`."""
_AS_PASSWORD = re.compile(
    rf"""(?P<head>(?:^|[\s"'`(:]))(?P<value>{_MIXED}[^\s"'`,;:()<>=]{{6,80}})(?=["'`]{{0,2}}[ \t](?:is|as|ist|als|comme|como)[ \t]"""
    rf"""(?:(?:the|a|my|our|its|new|das|dem|mein|unser|neues?|root|admin|bmc|ipmi|sudo|user|ldap|wifi)[ \t]){{0,3}}{_CALLED_SO}(?![\w-]))""",
    re.IGNORECASE,
)
_PROMPT = re.compile(
    rf"""(?P<head>\b{_CALLED_SO}[ \t](?:for|of|on|for[ \t]key|für|von|auf|de|pour|para)[ \t](?:'[^'\n]{{1,200}}'|"[^"\n]{{1,200}}"|[^\n:'"]{{1,80}})"""
    rf"""[ \t]{{0,2}}:[ \t]{{1,4}})(?!\[)(?P<value>(?:{_MIXED}|{_SIGNED})[^\s"'`,;()<>=]{{6,200}})(?=[ \t\r]*$)""",
    re.IGNORECASE,
)
_BRACKETED = re.compile(
    rf"""(?P<head>\b(?:{_CALLED_SO}|passcode|secret|token|key)[ \t]?(?:\[[^\]\n]{{0,80}}\]|\([^)\n]{{0,80}}\))"""
    rf"""[ \t]{{0,2}}[:=][ \t]{{1,4}})(?!\[)(?P<value>{_MIXED}(?![\d.,]{{1,12}}[A-Za-z/%]{{1,8}}(?:[\s,;]|$))[^\s"'`,;()<>]{{6,400}})""",
    re.IGNORECASE,
)
"""As programs ask for it, what is known already in brackets: `AWS Secret Access Key [None]: …`."""
_SPACED = re.compile(
    r"""(?P<head>\b(?:api|access|secret|account|signing|encryption|session|auth|bearer|security|license|licence|product|service|personal|deploy|"""
    r"""private|unseal|recovery|master|shared|pre-?shared|root)[ \t](?:access[ \t])?(?:key|token|secret)"""
    r"""(?:[ \t]\d{1,2})?[ \t]{0,4}[:=][ \t]{0,4}["'`]{0,2})"""
    r"""(?![\[/~.]|(?:sha\d+|md5)[:-])(?P<value>(?=[^\s]{0,120}\d)(?=[^\s]{0,120}[A-Za-z])[A-Za-z0-9._~+/=!@#$%^&*-]{12,400})(?![\w:])""",
    re.IGNORECASE,
)
_LOGFMT = re.compile(
    rf"""(?P<head>(?:^|(?<=[ \t]))pass=["']?)(?!\[|(?:fwd|bwd|fw|bw|forward|backward|pass|phase|stage|step|iter|iteration|round|attempt|test|epoch|run|batch|"""
    rf"""rank|gpu|node|case|opt|compile|all)[\w./-]{{0,24}}(?:["'\s,;]|$)|\d[\d.,:]{{0,12}}(?:of|/)?\d{{0,8}}[A-Za-z%]{{0,5}}(?:["'\s,;]|$))"""
    rf"""(?P<value>(?:{_MIXED}|{_SIGNED})[^\s"'`,;()<>|]{{6,400}})""",
    re.IGNORECASE,
)
_USER_LOGFMT = re.compile(
    rf"""(?P<head>\b(?:user(?:name)?|usr|login|uid|account)=[^\s,;&]{{1,80}}[ \t,;&]{{1,4}}(?:[^\s=]{{1,40}}=[^\s]{{0,80}}[ \t]{{1,4}}){{0,3}}?pass=){VALUE}""",
    re.IGNORECASE,
)
_YAML_PASS = re.compile(
    rf"""(?P<head>^[ \t]{{1,40}}(?:-[ \t]{{1,4}})?pass:[ \t]{{1,8}}["']?)(?!\[|\d[\d.,]{{0,12}}[A-Za-z%]{{0,5}}["']?[ \t\r]*$)"""
    rf"""(?P<value>(?:{_MIXED}|{_SIGNED})[^\s"'`,;()<>|]{{6,400}})(?=["']?[ \t\r]*$)""",
    re.IGNORECASE,
)
_SEND = re.compile(
    r"""(?P<head>ass(?:word|phrase|code)[^\n]{0,120}?\bsend(?:line)?\b[ \t(]{1,4}(?:--[ \t]{1,4})?[bru]?\\{0,6}(?=["']))"""
    r"""(?!["']\$)(?P<value>"[^"\n\\]{1,400}|'[^'\n\\]{1,400})""",
    re.IGNORECASE,
)
_LOGIN_PAIR = re.compile(
    rf"""(?P<head>\b(?:log[ -]?ins?|creds?|credentials?|user|account|access|ssh|bmc|ipmi|zugang|zugangsdaten|anmeldung)\b[^\n]{{0,60}}?"""
    rf"""(?<![\w/.~@-])(?:root|admin|administrator|ubuntu|userid|sysadmin|operator|cumulus|user)[ \t]?/[ \t]?["'`]?)"""
    rf"""(?!\[)(?P<value>{_MIXED}[^\s"'`,;:()<>=/]{{6,80}})(?![/\w])""",
    re.IGNORECASE,
)
_NET_USE = re.compile(
    r"""(?P<head>\bnet[ \t]use[ \t]{1,4}(?:\S{1,4}[ \t]{1,4})?(?:\\|//)[^\s"']{1,200}[ \t]{1,4})(?!/|\[)(?P<value>[^\s"']{1,200})""",
    re.IGNORECASE,
)
_AUTH = re.compile(
    r"""(?P<head>(?:^|[\s"'>:\]])AUTH[ \t"',]{1,4}(?:(?:PLAIN|LOGIN|CRAM-MD5|default|[\w.-]{1,32})[ \t"',]{1,4})?)(?!\[|TLS|SSL|SHA|MD5|HMAC)"""
    r"""(?P<value>(?=[^\s"'`]{0,80}\d)(?=[^\s"'`]{0,80}[A-Za-z])[^\s"'`,;:()<>]{8,400}={0,2})(?=["']{0,2}[ \t\r]*$)"""
)
_K8S_LITERAL = re.compile(rf"""(?P<head>--from-literal[= \t]["']?[\w.-]{{1,80}}=){_WORD}""")
_PAIR_OPTION = re.compile(
    rf"""(?P<head>(?<![\w-])--?(?:(?:src-|dest-)?creds|auth|basic-auth|user-pass|credentials)[= \t]["']?[^\s:"']{{1,80}}:)(?!//){_WORD}""",
    re.IGNORECASE,
)
_HASH_USER = re.compile(rf"""(?P<head>\bchpasswd\b[^\n]{{0,40}}?[\w.-]{{1,32}}:)(?P<value>(?!\[){_MIXED}[^\s"'`]{{6,200}})""")
_SAID_KEY = re.compile(
    r"""(?P<head>\b(?:token|api[ _-]?key|secret|key)(?:[ \t]{1,2}(?:is|was))?[ \t]{1,4}["'`*]{0,3})"""
    r"""(?!(?:[^\s/]{0,80}/){1,8}/|(?=[^\s/]{0,80}/)[^\s_]{0,80}_)"""
    r"""(?P<value>(?=[^\s]{0,80}\d)(?=[^\s]{0,80}[a-z])(?=[^\s]{0,80}[G-Zg-z])[A-Za-z0-9_+/=-]{24,400})(?![\w./:])""",
    re.IGNORECASE,
)
_USER_PASS = re.compile(r"(?P<head>\buser/pass(?:word)?:[ \t]{0,4}[^\s/]{1,40}/)(?P<value>\S{4,200})", re.IGNORECASE)
_NETRC = re.compile(
    r"(?P<head>\b(?:machine[ \t]{1,4}\S{1,200}|default)[ \t][^\n]{0,200}?\bpassword[ \t]{1,4})(?P<value>\S{1,400})", re.IGNORECASE
)
_DIRECTIVE = re.compile(
    r"(?P<head>^[ \t]{0,40}(?:password|requirepass|masterauth|bindpw|rootpw|sasl-password)[ \t]{1,8}"
    r"(?:--(?:plaintext|iscrypted|lock)[ \t]{1,4})?)(?!-)(?P<value>[^\s=:]{6,400})(?=[ \t\r]*$)",
    re.IGNORECASE,
)
_PASS_LINE = re.compile(r"(?P<head>^[ \t]{0,40}(?:pass|password2?)[ \t]{0,8}=[ \t]{0,8})(?P<value>\S{8,400})", re.IGNORECASE)
_PGPASS = re.compile(r"(?P<head>^[\w.*-]{1,200}:(?:\d{2,5}|\*):[\w*-]{1,80}:[\w*-]{1,80}:)(?P<value>\S{4,200})$")
_SNMP = re.compile(r"(?P<head>\bcommunity[ \t]{1,4})(?P<value>[^\s=:]{4,80})(?=[ \t]{1,4}R[OW]\b)", re.IGNORECASE)
_COMMUNITY = re.compile(r"(?P<head>^[ \t]{0,20}r[ow]community6?[ \t]{1,20})(?!public\b)(?P<value>[^\s=:]{4,80})")
_SHADOW = re.compile(r"(?P<head>\b[A-Za-z_][\w-]{0,31}:)(?P<value>[A-Za-z0-9./]{13})(?=:\d{1,6}:\d{0,6}:\d{0,6}:\d{0,6}:)")
_SQL = re.compile(
    r"""(?P<head>(?:\bIDENTIFIED|\b(?:user|to)[ \t]{1,4}\S{1,120}[ \t]{1,4}identified)[ \t]{1,4}(?:(?:with|WITH)[ \t]{1,4}\S{1,60}[ \t]{1,4})?(?:by|BY|as|AS)"""
    r"""[ \t]{1,4}(?:(?:password|PASSWORD)[ \t]{1,4})?)(?P<value>'[^'\n]{1,400}'?|"[^"\n]{1,400}"?)"""
)

_USER_COLON = re.compile(
    rf"""(?P<head>\b(?:user(?:name)?|login|u)[ \t]?:[ \t]{{0,4}}[^\s,;]{{1,80}}[ \t,;/]{{1,6}}(?:pass|pw|p)[ \t]?:[ \t]{{1,4}})"""
    rf"""(?!\[)(?P<value>(?:{_MIXED}|{_SIGNED})[^\s"'`,;()<>]{{6,200}})""",
    re.IGNORECASE,
)
_ELSEWHERE = re.compile(
    rf"""(?P<head>(?<![\w-])(?:mdp|clave|senha|has[łl]o|heslo|lozinka|salasana|jelszó)["']?[ \t]{{0,8}}[:=]{{1,2}}[ \t]{{0,4}}["'`]?)"""
    rf"""(?!\[)(?P<value>(?:{_MIXED}|{_SIGNED})[^\s"'`,;()<>]{{6,200}})""",
    re.IGNORECASE,
)
"""A password by its name in other languages."""
_LABELLED = re.compile(
    rf"""(?P<head>[\[("'](?:{_CALLED_SO}|token|secret|api[_-]?key)[\])"'][ \t,:]{{1,4}}["'`]?)(?!\[)(?P<value>{_MIXED}[^\s"'`,;:()<>=]{{6,400}})""",
    re.IGNORECASE,
)
_TUPLE = re.compile(
    r"""(?P<head>\bauth[ \t]{0,4}=[ \t]{0,4}\([ \t]{0,4}["'][^"'\n]{1,80}["'],[ \t]{0,4}["'])(?!\[redacted)(?P<value>[^"'\n]{1,200})"""
)
_SESSION = re.compile(
    r"""(?P<head>\b(?:JSESSIONID|PHPSESSID|sessionid|ASP\.NET_SessionId|connect\.sid)=)(?P<value>[^\s"',;&\[]{12,400})""", re.IGNORECASE
)
_RDP = re.compile(r"""(?P<head>\b(?:xfreerdp|wlfreerdp|mstsc|rdesktop)\b[^\n]{0,300}?[ \t](?:/p:|-p[ \t]{1,4}))(?P<value>[^\s"']{1,200})""")
_PERCENT = re.compile(
    r"""(?P<head>\b(?:winexe|rpcclient|smbget|wmic|net|nmblookup)\b[^\n]{0,200}?(?:-U|--user)[ \t=]{0,4}["']?[^\s%"']{1,80}%)(?P<value>[^\s"']{1,200})"""
)
_SWITCH = re.compile(
    r"""(?P<head>\b(?:enable secret|username \S{1,60}(?: privilege \d{1,2})? (?:secret|password)|(?:tacacs|radius)-server[^\n]{0,80}? key|"""
    r"""snmp-server user[^\n]{0,120}? """
    r"""(?:auth|priv) \S{1,10}|plain-text-password-value|ip ospf message-digest-key \d{1,3} md5|neighbor \S{1,60} password)[ \t]{1,4}(?:[0-9][ \t]{1,4})?)"""
    r"""(?!\[|\d[ \t])(?P<value>[^\s"']{6,200})""",
    re.IGNORECASE,
)
"""Settings of switches and routers."""
_KV_PUT = re.compile(
    r"""(?P<head>\b(?:vault[ \t]kv[ \t](?:put|patch)|vault[ \t]write)\b[^\n|]{0,300}?[ \t][\w.-]{1,80}=)(?!\[redacted|@)(?P<value>[^\s"']{1,400})"""
)
_JWK = re.compile(r"""(?P<head>"(?:d|p|q|dp|dq|qi|k)"[ \t]{0,4}:[ \t]{0,4}")(?P<value>[A-Za-z0-9_.-]{16,1400})(?=")""")
_WPA = re.compile(rf"""(?P<head>\bwpa_passphrase[ \t]{{1,4}}(?:"[^"\n]{{1,80}}"|\S{{1,80}})[ \t]{{1,4}}){_WORD}""")
_SQLCMD = _option("sqlcmd|bcp|osql|isql|psexec(?:64)?|paexec", rf"-[pP]{_APART}?")


def _mixed(ends: str) -> str:
    """Before a value that ends at any of these: a digit and a letter in it."""
    return rf"(?=[^{ends}]{{0,80}}\d)(?=[^{ends}]{{0,80}}[A-Za-z])"


_IN_CELL = _mixed(r"\s|│┃")
_SHORT = _mixed(r"\s\"'`,;:()<>=/")
_NAMED = ("password", "passwd", "passphrase", "secret_key", "secretkey", "api_key", "apikey", "access_key", "accesskey", "_token", "_secret",
          "_pass", "_pwd")  # fmt: skip
"""What `_CALLED` needs: more than `token` alone, which logs of training say in every line."""
_CALLED = r"[\w.-]{0,40}(?:password|passwd|passphrase|secret_?key|api_?key|access_?key|_(?:token|secret|pass|pwd))"
_CELL = re.compile(
    rf"""(?P<head>[|│┃][ \t]{{0,40}}{_CALLED}[ \t]{{0,40}}[|│┃][ \t]{{0,40}})(?P<value>{_IN_CELL}[^\s|│┃]{{6,400}})(?=[ \t]{{0,200}}[|│┃])""",
    re.IGNORECASE,
)
_ARROW = re.compile(
    rf"""(?P<head>{_CALLED}["'`]{{0,2}}[ \t]{{0,4}}(?:->|→)[ \t]{{0,4}}["'`]{{0,2}})(?P<value>{_SHORT}[^\s"'`,;()]{{6,400}})""",
    re.IGNORECASE,
)
_TWO_CELLS = re.compile(
    rf"""(?P<head>^[ \t]{{0,20}}["']?{_CALLED}["']?,["']?)(?P<value>{_SHORT}[^\s"'`,;()]{{6,400}})(?=["']?[ \t\r]*$)""", re.IGNORECASE
)
_CREDS = re.compile(
    rf"(?P<head>\bcred(?:s|entials)?:?[ \t]{{1,4}}[\w.@-]{{1,40}}[:/])(?P<value>{_SHORT}[^\s\"'`,;:()<>=/]{{6,200}})", re.IGNORECASE
)
_CISCO = re.compile(r"(?P<head>\bpassword[ \t]{1,4}[57][ \t]{1,4})(?P<value>[0-9A-F]{8,400})(?![\w.])")
_JOIN = re.compile(r"(?P<head>\btoken[ \t]{1,4})(?P<value>[a-z0-9]{6}\.[a-z0-9]{16})\b", re.IGNORECASE)
_AWS_PAIR = re.compile(r"(?P<head>\b(?:AKIA|ASIA)[A-Z0-9]{16}[ \t,:]{1,4})(?P<value>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])")
_LIST = re.compile(
    r"""(?P<head>(?:password|passwd|secret|token|api_?key)s?["']?[ \t]{0,4}[:=][ \t]{0,4}\[)"""
    r"""(?P<value>(?=[^\]\n]{0,400}\d)(?=[^\]\n]{0,400}[A-Za-z])[^\]\n\[]{8,4096})(?=\])""",
    re.IGNORECASE,
)


READERS = (
    *("pass", "sudo -", "kinit", "kadmin", "ktutil", "cryptsetup", "smbpasswd", "pdbedit", "realm join", "ads join"),
    *("with-token", "login", "ipmitool", "openssl"),
)
_SAYS_PASSWORD = (
    *("password", "passwd", "passphrase", "passcode", "passwort", "kennwort", "woord", "mot de passe", "contrasena", "senha"),
    *("pw ", "pwd ", "pw\t", "pwd\t"),
)
_VERBS = (
    "?",
    *(f" {verb} " for verb in ("is", "was", "are", "be", "remains", "becomes", "ist", "war", "lautet", "heisst", "est", "es", "era")),
    *(f" {verb}: " for verb in ("is", "was", "ist", "lautet", "est", "es")),
)
_ASKS = ("password", "passwd", "passphrase", "passcode", "pw", "pwd", "passwort", "kennwort", "wachtwoord", "secret", "token", "key")
"""Names that a program asks for, with what it knows in brackets. One rule each: most lines that hold one hold no other."""
_LOGIN_NAMES = tuple(
    f"{name}{sign}" for name in ("root", "admin", "istrator", "ubuntu", "userid", "operator", "cumulus") for sign in ("/", " /")
)
_LOGIN_WORDS = ("login", "log in", "log-in", "cred", "user", "account", "access", "ssh", "bmc", "ipmi", "zugang", "anmeld")
_ENDINGS = ("_key=", "_pat=", "_pass=", "_pwd=", "_pw=", "_auth=", "_creds=", "_token=", "_secret=")


@dataclass(frozen=True, slots=True)
class Rule:
    """`needles`: any of them in the line, in lower case. `also`: one of these as well, if there are any."""

    needles: tuple[str, ...]
    pattern: re.Pattern[str]
    also: tuple[str, ...] = ()


RULES = (
    Rule(("://",), _URL_OAUTH, ("x-oauth-basic",)),
    Rule(("://",), _URL, ("@",)),
    Rule(("://",), _URL_USER, ("@",)),
    Rule(("://",), _URL_KEY, ("?key=", "&key=", "?code=", "&code=")),
    Rule(("auth",), _HEADER, ("authorization",)),
    Rule(("bearer", "basic"), _BEARER),
    Rule(("cookie",), _COOKIE),
    Rule(("hooks.slack",), _SLACK_HOOK),
    Rule(("wandb",), _VENDOR),
    Rule(("twilio",), _TWILIO),
    Rule(("discord",), _DISCORD),
    Rule(("auth", "token"), _DOCKER, ('"auth"', '"identitytoken"', '"registrytoken"')),
    Rule(("pass", "secret", "key", "token"), _XML, ("</",)),
    Rule(("pass", "secret", "key", "token"), _XML_PAIR, ('value="',)),
    Rule(("pass", "secret", "key", "token"), _LIST, (": [", "= [", ":[", "=[")),
    Rule(("pass", "secret", "key", "token"), _XML_NAMED, ("</name>",)),
    Rule(("pass",), _USER_PASS, ("user/pass",)),
    Rule(SAYS, ASSIGNED),
    Rule(("pass", "token", "secret", "key"), _FLAG, (" -", '"-', "'-")),
    Rule(
        ("key", "_pat", "pass", "pw", "auth", "_creds=", "token", "secret"),
        _ENV,
        _ENDINGS,
    ),
    Rule(("pass",), _SSHPASS, ("sshpass",)),
    Rule(("login",), _LOGIN, (" -p", '"-p', "'-p")),
    Rule(("login",), _LOGS_IN, ("wandb", "vault", "hf", "hugging")),
    Rule(("mysql", "mariadb"), _MYSQL, (" -p", '"-p', "'-p")),
    Rule(("ipmi",), _BMC, (" -p", '"-p', "'-p", " -k", '"-k', "'-k", " -y", '"-y', "'-y")),
    Rule(("ipmi",), _BMC_SET, ("set password",)),
    Rule(("pass",), _HTPASSWD, ("htpasswd -",)),
    Rule(("zip",), _ZIP, (" -p",)),
    Rule(("7z",), _SEVEN, (" -p",)),
    Rule(("useradd", "usermod"), _NEW_USER, (" -p",)),
    Rule(("snmp",), _SNMP_USER, (" -a", " -x", " -c")),
    Rule(("curl",), _CURL_COOKIE, (" -b", "--cookie")),
    Rule(("racadm", "ipmi", "redfish", "mongo", "sshfs", "pass"), _RACADM, (" -p", '"-p', "'-p")),
    Rule(("-cli",), _REDIS, ("redis-cli", "keydb-cli", "valkey-cli")),
    Rule(("ldap",), _LDAP, (" -w", '"-w', "'-w")),
    Rule(("openssl",), _OPENSSL),
    Rule(("mc alias", '"alias"'), _STORE),
    Rule(("curl", "lftp", "smbclient", "wget"), _USER, ("-u", "u ", "--user", "--proxy")),
    Rule(("key",), _SET, ("configure set", "config ")),
    Rule(READERS, _ECHO, ("echo", "printf")),
    Rule(READERS, _HERE, ("<<<",)),
    Rule(("pass",), _NETRC, ("machine", "default")),
    Rule(("pass", "masterauth", "bindpw", "rootpw"), _DIRECTIVE),
    Rule(("pass",), _PASS_LINE, ("=",)),
    Rule(_SAYS_PASSWORD, _SAID),
    Rule(_SAYS_PASSWORD, _SAID_OF, _VERBS),
    Rule(_SAYS_PASSWORD, _AS_PASSWORD, (" is ", " as ", " ist ", " als ", " comme ", " como ")),
    Rule(_SAYS_PASSWORD, _PROMPT, (": ",)),
    *(Rule((name,), _BRACKETED, tuple(f"{name}{opens}" for opens in ("[", "(", " [", " ("))) for name in _ASKS),
    *(
        Rule((name,), _SPACED, tuple(f"{name}{sign}" for sign in (":", "=", " :", " =", " 0:", " 0 :")))
        for name in ("key", "token", "secret")
    ),
    Rule(("pass",), _LOGFMT, ("pass=",)),
    Rule(("pass",), _USER_LOGFMT, ("pass=",)),
    Rule(("pass",), _YAML_PASS, (" pass:", "\tpass:")),
    Rule(("pass", "assword", "assphrase"), _SEND, ("send",)),
    Rule(_LOGIN_NAMES, _LOGIN_PAIR, _LOGIN_WORDS),
    Rule(("net use",), _NET_USE),
    Rule((" pass:", " pw:", " p:"), _USER_COLON, ("user", "login", "u:")),
    Rule(("mdp", "clave", "senha", "has?o", "haslo", "heslo", "lozinka", "salasana", "jelsz?"), _ELSEWHERE, (":", "=")),
    *(
        Rule((name,), _LABELLED, tuple(f"{name}{ends}" for ends in ("] ", ") ", "']", '"]', "',", '",')))
        for name in ("password", "passwd", "pwd", "token", "secret", "key")
    ),
    Rule(("auth",), _TUPLE, ("auth=(", "auth = (")),
    Rule(("jsessionid", "phpsessid", "sessionid=", "connect.sid"), _SESSION),
    Rule(("freerdp", "mstsc", "rdesktop"), _RDP),
    Rule(("winexe", "rpcclient", "smbget", "wmic"), _PERCENT, ("%",)),
    Rule(
        ("enable secret", "username ", "-server ", "plain-text-password", "message-digest-key", "neighbor "),
        _SWITCH,
        ("secret ", "password ", " key ", " auth ", " priv ", "-value ", " md0 "),
    ),
    Rule(("vault kv", "vault write"), _KV_PUT),
    Rule(('"kty"',), _JWK),
    Rule(("wpa_passphrase",), _WPA),
    Rule(("sqlcmd", "psexec", "paexec", "osql"), _SQLCMD, (" -p",)),
    Rule(("auth ", 'auth"'), _AUTH),
    Rule(("secret",), _K8S_LITERAL, ("--from-literal",)),
    Rule(("creds", "auth", "credentials", "user-pass"), _PAIR_OPTION, ("-creds", "-auth", "-credentials", "-user-pass")),
    Rule(("pass",), _HASH_USER, ("chpasswd",)),
    Rule(("token", "key", "secret"), _SAID_KEY, ("token ", "key ", "secret ")),
    Rule((":5432:", ":*:"), _PGPASS),
    Rule(("community",), _SNMP),
    Rule(("community",), _COMMUNITY),
    Rule((":::",), _SHADOW),
    Rule(("identified",), _SQL),
    Rule(_NAMED, _CELL, ("|", "?")),
    Rule(_NAMED, _ARROW, ("->", "?")),
    Rule(_NAMED, _TWO_CELLS, (",",)),
    Rule(("creds", "credential"), _CREDS, ("/", ":")),
    Rule(("pass",), _CISCO, ("password 0",)),
    Rule(("token ",), _JOIN, (".",)),
    Rule(("akia", "asia"), _AWS_PAIR),
)
