"""Word tables from German, French, Spanish and Chinese to the English of the cues, without accents.

Word order stays, and only what people ask this bot is included.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Final

from graph.dialogue.spelling import MOST_WORDS

# Words of a phrase, and characters of a Chinese one. In the tables `_` joins a phrase's words and `=` precedes the
# English.
_LONGEST, _LONGEST_RUN = 5, 6
GERMAN: Final = """
    ich=i mir=me mich=me mein=my meine=my meinen=my meinem=my du=you dich=you
    dir=you ihr=you sie=they wir=we uns=us unser=our unsere=our man=we es=it
    das=it dies=this diese=this dieser=this diesen=this der=the die=the dem=the
    den=the ein=a eine=a einen=a einem=a im=in_the am=on_the vom=of_the
    zum=to_the zur=to_the anderen=others andere=other restlichen=remaining ubrigen=remaining alle=all allen=all knoten=node rechner=machine
    maschine=machine maschinen=machines server=server jemand=anybody mensch=human
    menschen=human kollege=colleague kollegen=colleague wer=who wen=who
    wem=who was=what welche=which welche_befehle=list_commands welcher=which welches=which
    warum=why wieso=why weshalb=why wie=how wann=when wo=where
    woher=how woran=why erkennst=know merkst=know siehst=see
    spinnt=broken streikt=broken schiefgelaufen=wrong wozu=why ob=whether ist=is sind=are war=was waren=were
    sein=be bin=am bist=are wird=will wurde=was werden=will hat=has hast=have
    habe=have haben=have hab=have gibt=is gab=was gibts=is_it kann=can
    kannst=can konnen=can konnt=can konntest=could konnte=could darf=may durfen=may
    durfte=may soll=should sollen=should sollte=should sollten=should muss=must
    mussen=must will=want mochte=want wollen=want brauche=need brauchen=need
    braucht=needs wurdest=would nicht=not kein=no keine=no nein=no ja=yes
    jo=yes nie=never doch=actually wenn=if falls=if sobald=once bis=until seit=since
    um=at fur=for mit=about auf=on von=of bei=on und=and oder=or
    aber=but auch=also nur=only noch=still schon=already mal=please bitte=please so=so zu=to
    zwischen=between an=on dass=that jetzt=now gerade=now nun=now
    heute=today gestern=yesterday stunde=hour stunden=hours minuten=minutes uhr=
    nachsten=next nachste=next nachster=next schritte=steps schritt=step zuerst=first wieder=again nochmal=again nochmals=again erneut=again
    noch_mal=again noch_einmal=again abermals=again denn= eigentlich=
    eben= etwa= vielleicht=maybe sonst=other in_ordnung=okay gibt_es=is_there
    was_neues=any_news schon_was=any was_gefunden=any_found schon_etwas=any
    ok=okay gesund=healthy kaputt=broken betroffen=affected normal=normal
    geht=works geht_es=is_doing gehts=is_doing geht_es_wieder=works_again gehts_wieder=works_again lauft_es_wieder=works_again lauft=works laeuft=works
    laufen=working funktioniert=works funktionieren=works tut=works stand=status
    zustand=state lage=status neues=news neuigkeiten=news los=going_on
    gefunden=found fertig=done weit=far weiter=next sauber=clean fehler=error
    probleme=problems defekt=broken hangt=hangs abgesturzt=crashed
    langsam=slow steht=hangs immer_noch=still noch_immer=still nach_wie_vor=still
    machst_du=you_doing machst=doing macht=does tust_du=you_doing
    passiert=happens geschieht=happens geandert=changed verandert=changed bisher=so_far
    aktuell=current glaubst=think denkst=think meinst=mean weisst=know
    weiss=know sicher=sure erklare=explain erklaren=explain erklar=explain
    erlautern=explain grund=reason ursache=root_cause schuld=culprit beweis=proof belege=evidence begrunde=explain bedeutet=mean heisst=mean
    kommst=conclude liegt=be ausgeschlossen=ruled_out ausschliessen=rule_out
    gepruft=checked netzwerk=network netz=network kabel=cable treiber=driver
    platte=disk festplatte=disk speicher=memory netzteil=power_supply
    lufter=fan hitze=heat temperatur=temperature temperaturen=temperatures code=code
    strom=power schalter=switch kummert=handling kummere=take_care darum=of_it
    dran=on_it daran=on_it arbeitet=working arbeite=working bearbeitet=handling
    zustandig=responsible verantwortlich=responsible ubernehme=take ubernimmt=handling
    ubernommen=taken ubernehmen=take mach_das=take_it mache_das=take_it
    nehme=take gib=give ubergib=hand_over ubergeben=hand_over eskalieren=escalate
    eskaliere=escalate weise=assign zuweisen=assign freigeben=approve tun=do
    machen=do beheben=fix behoben=fixed losen=fix gelost=fixed reparieren=fix repariert=fixed empfiehlst=recommend empfehlung=recommendation
    ratst=recommend vorschlag=suggestion schlagst=suggest pruf=check prufe=check
    prufen=check uberprufen=check uberprufe=check checke=check schau=look
    schaue=look anschauen=look ansehen=look nachschauen=look nachsehen=look sieh=look
    nach=at guck=look testen=test zeig=show zeige=show zeigen=show
    ausgabe=output vergleiche=compare vergleich=compare unterschied=difference
    zusammenfassung=summary fasse=summary zusammenfassen=summary chef=manager
    chefin=manager stopp=stop halt=stop abbrechen=cancel aufhoren=stop
    hor_auf=stop lass=leave lasst=leave in_ruhe=alone suche=search suchen=search zu_suchen=search ruhe=quiet ruhig=quiet sei=be schliessen=close schliess=close
    schliesse=close zumachen=close geschlossen=closed wieder_offnen=reopen offne=open ruckgangig=undo zuruck=back starte=start starten=start
    neu_starten=reboot neustarten=reboot neustart=restart zurucksetzen=reset drainen=drain hilfe=help hilf=help helfen=help befehle=commands
    befehl=command benutze=use benutzt=use verwende=use verwenden=use nutzen=use genehmigt=approved genehmige=approve genehmigen=approve
    genehmigung=approval freigegeben=approved einverstanden=approved freigabe=approval
    mach_es=do_it mach=do ja_mach_das=yes_do_it leg_los=go_ahead
    los_gehts=go_ahead abgelehnt=rejected ablehnen=reject drucke=press klicke=click
    sagen=tell sage=tell schon_mal=before gabs=happened gab_es=happened schon_einmal=before
    vorher=before fruher=before bekannt=known gefahrlich=dangerous gefahrlos=safe
    risiko=risk falsch=wrong stimmt=right problem=problem fall=incident
    vorfall=incident danke=thanks vielen_dank=thanks dank=thanks danke_schon=thanks
    dankeschon=thanks besten_dank=thanks gut=good gute=good guten=good
    prima=great klasse=great toll=great arbeit=work gut_gemacht=well_done
    morgen=morning hallo=hello servus=hello moin=hello tschuss=bye abend=evening
    wer_bist_du=who_are_you zeitleiste=timeline zeitstrahl=timeline zeitachse=timeline chronologie=timeline ablauf=timeline baum=tree
    ursachenbaum=tree entscheidungsbaum=tree kurve=curve bandbreite=bandwidth bandbreitenkurve=curve nachrichtengrosse=message_size bild=picture
"""
FRENCH: Final = """
    je=i j=i moi=me me=me m=me mon=my ma=my mes=my tu=you te=you
    t=you toi=you vous=you nous=us on=we notre=our il=it elle=it ils=they ca=it cela=it
    c_est=it_is c=it ce=it cette=this cet=this le=the la=the les=the l=the un=a une=a
    des=any du=the de=of d=of au=on aux=on a=has sur=on s= en= y=it se=
    dessus=on_it pour=for avec=with dans=in et=and
    ou=where du_nouveau=any_news
    ou_en_est=where_are_we_status ou_en_sommes=where_are_we_status ou_en_es=status_you mais=but
    aussi=also si=if que=what entre=between autres=others autre=other tous=all toutes=all tout=everything reste=rest noeud=node noeuds=nodes
    machine=machine machines=machines serveur=server serveurs=servers
    quelqu_un=anybody humain=human chose=thing quelque_chose=anything quelque=any
    qui=who quoi=what quel=what quelle=what quels=which
    quelles=which quelles_sont_les_commandes=list_commands pourquoi=why comment=how quand=when
    est_ce_que=is est_ce_qu=is qu_est_ce_que=what qu_est_ce_qu=what qu_est_ce_qui=what qu=what
    est=is es=are suis=am sont=are etait=was etre=be ete=been
    sera=will_be serait=would_be as=have ai=have ont=have avez=have avons=have va=works vas=go comment_va=how_is comment_vont=how_are
    comment_ca_va=how_are_you ca_va=it_ok comment_allez=how_are peux=can peut=can
    pouvez=can pourrait=could pourrais=could pouvons=can dois=should
    doit=should devrait=should devrais=should faut=must veux=want voudrais=want besoin=need
    pas=not ne= n= non=no oui=yes jamais=never plus=more
    seulement=only uniquement=only encore=still toujours=still deja=already
    maintenant=now aujourd_hui=today hier=yesterday heure=hour heures=hours
    depuis=since jusqu_a=until s_il_te_plait=please s_il_vous_plait=please svp=please
    stp=please peut_etre=maybe prochaine=next prochaines=next suite=next
    etapes=steps etape=step encore_une_fois=again
    verifie_encore=check_again regarde_encore=look_again verifier_encore=check_again a_nouveau=again
    de_nouveau=again nouveau=new nouvelles=news nouveautes=news quoi_de_neuf=what_news
    neuf=new etat=state statut=status sante=health bonne_sante=healthy
    bien=fine marche=works fonctionne=works fonctionnent=works
    remarche=works_again refonctionne=works_again panne=broken casse=broken touche=affected
    trouve=found fini=done termine=done fais=doing fait=do qu_est_ce_qu_on_fait=what_should_we_do que_fait_on=what_should_we_do
    qu_est_ce_que_je_fais=what_should_i_do passe=happens change=changed avance=progress
    avancement=progress sais=know penses=think tu_es_sur=are_you_sure
    es_tu_sur=are_you_sure vous_etes_sur=are_you_sure sur_que=sure_that certain=certain
    explique=explain expliquer=explain expliquez=explain raison=reason
    cause=cause preuve=proof preuves=evidence signifie=mean exclu=ruled_out exclure=rule_out verifie=check verifier=check reverifie=recheck
    reverifier=recheck regarde=look regarder=look revoir=look_again controle=check
    controler=check teste=test reseau=network cable=cable pilote=driver
    disque=disk memoire=memory alimentation=power_supply ventilateur=fan
    temperature=temperature chaleur=heat code=code commutateur=switch occupe=handling
    m_en_occupe=take_it m_en_charge=take_it charge=handling travaille=working
    responsable=responsible gere=handling je_gere=i_handle_it prends=take
    prend=handling pour_moi=mine je_suis_dessus=i_am_on_it donne=give
    escalade=escalate escalader=escalate transfere=hand_over faire=do reparer=fix
    repare=fixed resoudre=fix resolu=fixed resolue=fixed
    corrige=fixed regle=fixed conseilles=recommend conseillez=recommend recommandes=recommend
    proposes=suggest suggeres=suggest montre=show montrer=show
    affiche=show sortie=output compare=compare comparer=compare difference=difference
    resume_moi=summary resumer=summary un_resume=summary le_resume=summary chef=manager arrete=stop arrete_de=stop chercher=search recherche=search
    recherches=search
    arreter=stop annule=cancel annuler=undo silence=quiet tais_toi=be_quiet ferme=close
    fermer=close cloture=close rouvre=reopen rouvrir=reopen redemarre=reboot
    redemarrer=reboot reinitialise=reset draine=drain drainer=drain aide=help
    aidez=help commandes=commands commande=command
    utiliser=use utilise=use ca_marche_comment=how_does_it_work comment_ca_marche=how_does_it_work
    approuve=approved approuver=approve approbation=approval valide=approved
    d_accord=okay ok=ok vas_y=go_ahead allez_y=go_ahead fais_le=do_it
    faites_le=do_it refuse=rejected rejette=reject clique=click
    avant=before deja_arrive=happened_before arrive=happened connu=known dangereux=dangerous
    risque=risk faux=wrong probleme=problem incident=incident
    chronologie=timeline frise=timeline deroule=timeline arbre=tree courbe=curve courbes=curve bande_passante=bandwidth
    merci=thanks merci_beaucoup=thanks beaucoup=much bon_travail=good_job beau_travail=good_job
    parfait=perfect genial=great bravo=well_done super=super bonjour=hello
    salut=hello bonsoir=hello bonne=good nuit=night bon=good au_revoir=bye
    qui_es_tu=who_are_you
"""
SPANISH: Final = """
    yo=i me=me mi=my mio=mine mia=mine tu=you te=you ti=you usted=you
    nosotros=we nos=us nuestro=our nuestra=our el=the la=the los=the las=the lo=it le=it
    ello=it esto=this este=this esta=is eso=that ese=that un=a una=a del=of_the
    de=of al=to_the en=in con=with para=for por=for y=and o=or pero=but
    tambien=also si=yes a=to entre=between que=what otros=others
    otro=other otras=others demas=others resto=rest todos=all todo=everything todas=all
    nodo=node nodos=nodes maquina=machine maquinas=machines servidor=server
    servidores=servers alguien=anybody humano=human persona=person algo=anything
    alguna=any algun=any quien=who quienes=who cual=what cuales=which
    que_comandos=list_commands por_que=why porque=why como=how cuando=when donde=where
    que_tal=how_is que_tal_esta=how_is es=is son=are soy=am eres=are estas=are_you
    estamos=are_we estan=are estoy=i_am era=was fue=was sera=will_be ser=be
    seria=would_be ha=has has=have he=have han=have hay=is_there
    va=going como_va=how_is_it_going van=are_going puede=can puedes=can_you puedo=can
    podemos=can podria=could podrias=could_you debo=should debe=should
    deberia=should deberiamos=should quiero=want necesito=need no=not nunca=never sin=not
    solo=only solamente=only todavia=still aun=still sigue=still ya=now
    ahora=now hoy=today ayer=yesterday hora=hour horas=hours minutos=minutes
    desde=since hasta=until durante=for por_favor=please porfa=please
    quiza=maybe quizas=maybe tal_vez=maybe siguiente=next proximo=next pasos=steps
    paso=step otra_vez=again de_nuevo=again nuevamente=again vuelve_a=again
    vuelve=again nuevo=new novedad=news novedades=news noticias=news estado=state
    en_que_estado=what_status situacion=status bien=fine mal=bad sano=healthy
    sana=healthy roto=broken caido=down afectado=affected funciona=works
    funcionan=works funcionar=working funcionando=working haciendo=doing
    encontrado=found encontraste=found terminado=done listo=done pasa=happens
    paso_algo=happened pasado=happened cambiado=changed cambio=changed sabes=know
    piensas=think crees=think seguro=sure segura=sure explica=explain
    explicame=explain_me explicar=explain razon=reason causa=cause
    prueba=proof pruebas=evidence evidencia=evidence significa=mean descartado=ruled_out
    descartar=rule_out descartaste=ruled_out comprueba=check comprobar=check
    comprobado=checked revisa=check revisar=check revisado=checked mira=look
    mirar=look verifica=check verificar=check red=network cable=cable
    controlador=driver disco=disk memoria=memory fuente=power_supply ventilador=fan
    temperatura=temperature calor=heat codigo=code conmutador=switch
    encarga=handling encargo=take_it me_encargo=take_it ocupa=handling ocupo=take_it
    me_ocupo=take_it en_ello=on_it trabajando=working trabaja=working
    responsable=responsible lleva=handling tomo=take cojo=take asigna=assign
    asignalo=assign_it escala=escalate escalar=escalate hago=should_do
    hacemos=should_we_do hacer=do haz=do que_hago=what_should_i_do arreglar=fix
    arreglamos=fix arreglo=fix arreglado=fixed resuelto=fixed
    solucionado=fixed reparado=fixed solucionar=fix resolver=fix recomiendas=recommend
    aconsejas=recommend sugieres=suggest muestra=show muestrame=show_me ensename=show_me salida=output compara=compare comparar=compare
    diferencia=difference resumen=summary jefe=manager jefa=manager
    deja_de=stop dejen_de=stop buscar=search busqueda=search para_ya=stop_now detente=stop cancela=cancel cancelar=cancel silencio=quiet
    callate=be_quiet cierra=close cerrar=close cierralo=close_it reabre=reopen
    reabrir=reopen deshaz=undo deshacer=undo reinicia=reboot reiniciar=reboot
    drena=drain drenar=drain ayuda=help ayudame=help_me
    comandos=commands usar=use uso=use como_funciona=how_does_it_work como_funcionas=how_do_you_work
    ok=ok aprobado=approved aprueba=approve aprobar=approve
    apruebo=i_approve aprobacion=approval adelante=go_ahead hazlo=do_it dale=go_ahead
    de_acuerdo=okay vale=okay rechazado=rejected rechaza=reject pulso=press
    pulsar=press antes=before conocido=known peligroso=dangerous riesgo=risk
    incorrecto=wrong equivocado=wrong problema=problem incidente=incident
    gracias=thanks muchas_gracias=thanks muchas=many mil_gracias=thanks
    perfecto=perfect genial=great excelente=excellent buen=good trabajo=job
    buen_trabajo=good_job bueno=good buenos=good buenas=hello dias=morning
    cronologia=timeline linea_de_tiempo=timeline linea_temporal=timeline arbol=tree curva=curve ancho_de_banda=bandwidth
    descartada=ruled_out descartadas=ruled_out imagen=picture
    tardes=afternoon noches=night hola=hello adios=bye quien_eres=who_are_you
"""
CHINESE: Final = """
    我=i 我们=we 你=you 您=you 它=it 这=this 那=that 这个=this 那个=that 的= 了= 吗= 呢= 吧= 啊= 在= 把= 给= 请=please 一下=please 帮我=please
    是=is 有=is_there 没有=not 没=not 不=not 不是=is_not 别=do_not 不要=do_not 还=still 还是=still 仍然=still 又=again 再=again 再次=again 重新=again
    现在=now 今天=today 昨天=yesterday 以前=before 之前=before 最近=recently 什么=what 哪=which 哪个=which 哪些=which 谁=who 为什么=why 为啥=why 怎么=how
    如何=how 怎么样=how_is 怎样=how_is 什么时候=when 其他=other 其它=other 所有=all 全部=all 都=all 节点=node 机器=machine 主机=host 服务器=server 作业=job
    任务=job 训练=training 正常=healthy 好=okay 坏=broken 坏了=broken 好了=fixed 修好=fixed 修好了=fixed 恢复了=works_again 解决了=solved 不行=broken
    挂了=down 卡住=hangs 报错=error 错误=error 问题=problem 故障=fault 原因=root_cause 状态=status 情况=status 进展=progress 消息=news 进度=progress
    该怎么办=what_should_i_do 怎么办=what_should_i_do 做=do 处理=handle 我来=i_take_it 我来处理=i_take_it 负责=responsible 解释=explain 证据=evidence
    确定=sure 知道=know 认为=think 比较=compare 对比=compare 区别=difference 变化=changed 变了=changed 发生=happened 发生过=happened_before 安全=safe
    可以=can 能=can 应该=should 重启=reboot 复位=reset 重置=reset 排空=drain 检查=check 再检查=recheck 重新检查=recheck 看看=look 看=see 给我看=show_me
    显示=show 日志=log 输出=output 网络=network 线缆=cable 驱动=driver 内存=memory 磁盘=disk 电源=power_supply 温度=temperature 总结=summary 摘要=summary
    老板=manager 经理=manager 停=stop 停止=stop 停下=stop 暂停=pause 安静=quiet 关闭=close 重新打开=reopen 批准=approve 同意=approve 谁能批准=who_can_approve
    帮助=help 命令=commands 谢谢=thanks 多谢=thanks 感谢=thanks 你好=hello 您好=hello 早上好=good_morning 再见=bye 转给人工=hand_off 人工=human
    时间线=timeline 时间轴=timeline 决策树=tree 曲线=curve 带宽曲线=curve 排除了=ruled_out 升级=escalate 你是谁=who_are_you
"""
TONGUES: Final = (GERMAN, FRENCH, SPANISH, CHINESE)
_HAN = re.compile(r"[\u4e00-\u9fff]")
_ENGLISH_WORDS: Final = """
a about again all an and any are as at be by can could did do does for go had has have here him how i if in is it me my no not now of on
or please should so that the there these they this to us was we were what who why will with would you your
"""
_ENGLISH: Final = frozenset(_ENGLISH_WORDS.split())  # Common words that identify English.


def translate_to_english(words: Sequence[str], cues: Collection[str]) -> list[str] | None:
    """Return the words in English; None if they are English already or in no known language. `cues` are English words."""
    words = [part for word in words for part in (_divided(word) if _HAN.search(word) else [word])][:MOST_WORDS]
    for table in sorted(_tables(), key=lambda table: -_hits(words, table)):
        hits = _hits(words, table)
        english = sum(word in _ENGLISH or (word in cues and (word,) not in table) for word in words)
        return _glossed(words, table) if hits > english and hits * 2 >= sum(word.isalpha() for word in words) else None
    return None


def _divided(run: str) -> list[str]:
    table, found, at = _tables()[-1], list[str](), 0
    while at < len(run):
        size = next((size for size in range(min(_LONGEST_RUN, len(run) - at), 1, -1) if (run[at : at + size],) in table), 1)
        found.append(run[at : at + size])
        at += size
    return found


def _hits(words: Sequence[str], table: Mapping[tuple[str, ...], str]) -> int:
    """Count words that mean something else, or nothing, in English."""
    return sum(size for at, size in _phrases(words, table) if table[tuple(words[at : at + size])] != " ".join(words[at : at + size]))


def _phrases(words: Sequence[str], table: Mapping[tuple[str, ...], str]) -> Iterator[tuple[int, int]]:
    """Yield (position, words) of the longest phrases without overlap."""
    at = 0
    while at < len(words):
        size = next((size for size in range(min(_LONGEST, len(words) - at), 0, -1) if tuple(words[at : at + size]) in table), 0)
        if size:
            yield at, size
        at += size or 1


def _glossed(words: Sequence[str], table: Mapping[tuple[str, ...], str]) -> list[str]:
    sizes = dict(_phrases(words, table))
    found: list[str] = []
    at = 0
    while at < len(words):
        size = sizes.get(at, 0)
        found += table[tuple(words[at : at + size])].split() if size else [words[at]]
        at += size or 1
    return found


@cache
def _tables() -> tuple[Mapping[tuple[str, ...], str], ...]:
    return tuple(dict(_row(row) for row in tongue.split()) for tongue in TONGUES)


def _row(row: str) -> tuple[tuple[str, ...], str]:
    phrase, _, english = row.partition("=")
    return tuple(phrase.split("_")), english.replace("_", " ")
